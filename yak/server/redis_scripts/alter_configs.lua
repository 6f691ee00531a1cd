-- Set and remove configs of a topic, a broker, or all brokers.
local refused = check_broker()
if refused then return refused end
local topic_id
if A.resource_type == 'topic' then
  topic_id = redis.call('HGET', key('tn'), A.resource_name)
  if not topic_id then return refuse('NO_TOPIC') end
end
local name = A.resource_type .. ':' .. A.resource_name
local old = configs_of(name)
local new = {}
if not A.replace then
  for option, value in pairs(old) do new[option] = value end
end
for _, change in ipairs(A.changes) do
  if change[2] == cjson.null then new[change[1]] = nil else new[change[1]] = change[2] end
end
local same = true
for option, value in pairs(old) do same = same and new[option] == value end
for option, value in pairs(new) do same = same and old[option] == value end
if same then return answer('OK') end
if next(new) then
  redis.call('HSET', key('configs'), name, cjson.encode(new))
else
  redis.call('HDEL', key('configs'), name)
end
append('Config', {resource_type = A.resource_type, resource_name = A.resource_name, configs = new})
local option = 'min.insync.replicas'
if topic_id and old[option] ~= new[option] then
  -- The minimum ISR is part of the commit rule: whoever knows the old one must fail its next change.
  local changes = {}
  local total = read_topic(topic_id).total
  for number = 0, total - 1 do
    local p = read_partition(topic_id, number)
    if p then
      p.elr, p.partition_epoch = '', p.partition_epoch + 1
      write_partition(topic_id, p)
      changes[#changes + 1] = change_of(topic_id, p)
    end
    if #changes == MAX_PARTITIONS or (number == total - 1 and #changes > 0) then
      append('PartitionChange', {changes = changes})
      changes = {}
    end
  end
end
return answer('OK')
