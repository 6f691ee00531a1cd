-- Set and remove configs of a topic, a broker, all brokers, or a group.
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
  -- A value that was computed from another one replaces only that one; it may be there after a lost answer.
  local present, expected = old[change[1]] or cjson.null, change[3]
  if expected ~= nil and present ~= expected and present ~= change[2] then
    return answer('OK', {code = 'INVALID_UPDATE_VERSION'})
  end
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
if old[MIN_ISR] ~= new[MIN_ISR] then
  -- The minimum ISR is part of the commit rule: whoever knows the old one must fail its next change.
  local topics = {}
  if topic_id then
    topics[A.resource_name] = topic_id
  else
    for topic_name, id in pairs(read_hash(key('tn')) or {}) do
      if not configs_of('topic:' .. topic_name)[MIN_ISR] then topics[topic_name] = id end
    end
  end
  local names = {}
  for topic_name in pairs(topics) do names[#names + 1] = topic_name end
  table.sort(names)
  local changed = {}
  for _, topic_name in ipairs(names) do
    local id = topics[topic_name]
    for number = 0, read_topic(id).total - 1 do
      local p = read_partition(id, number)
      -- What is set on one broker counts where it leads.
      if p and (topic_id or A.resource_name == '' or A.resource_name == text(p.leader)) then
        -- Without a leader, or an ISR, nothing is committed: the eligible leaders stay eligible.
        if p.isr ~= '' and not commits_nothing(A, p.leader) then p.elr = '' end
        p.nonce, p.partition_epoch = '', p.partition_epoch + 1
        changed[#changed + 1] = {id, p}
      end
    end
  end
  write_changes(changed)
end
return answer('OK')
