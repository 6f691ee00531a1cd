-- Put behind the prologue of the scripts that know topics and partitions.
local MAX_PARTITIONS = 200

local function topic_key(id) return key('t:' .. id) end
local function partition_key(id, number) return key('p:' .. id .. ':' .. text(number)) end

local function read_topic(id)
  local topic = read_hash(topic_key(id))
  if topic then
    topic.total = tonumber(topic.total)
    topic.made = tonumber(topic.made)
    topic.creator_id = tonumber(topic.creator_id)
    topic.creator_epoch = tonumber(topic.creator_epoch)
  end
  return topic
end

local function read_partition(id, number)
  local values = redis.call('HMGET', partition_key(id, number), 'replicas', 'isr', 'elr', 'leader', 'leader_epoch',
    'partition_epoch', 'nonce')
  if not values[1] then return false end
  return {partition = number, replicas = values[1], isr = values[2], elr = values[3], leader = tonumber(values[4]),
    leader_epoch = tonumber(values[5]), partition_epoch = tonumber(values[6]), nonce = values[7]}
end

local function write_partition(id, p)
  redis.call('HSET', partition_key(id, p.partition), 'replicas', p.replicas, 'isr', p.isr, 'elr', p.elr,
    'leader', text(p.leader), 'leader_epoch', text(p.leader_epoch), 'partition_epoch', text(p.partition_epoch),
    'nonce', p.nonce)
end

local function change_of(id, p, unclean)
  return {topic_id = id, partition = p.partition, isr = p.isr, elr = p.elr, leader = p.leader,
    leader_epoch = p.leader_epoch, partition_epoch = p.partition_epoch, unclean = unclean or false}
end

local function parse_nodes(list)
  local nodes = {}
  for node in string.gmatch(list, '[^,]+') do nodes[#nodes + 1] = tonumber(node) end
  return nodes
end

-- `1@17,2@40` as a list of {node, epoch}.
local function parse_isr(list)
  local members = {}
  for node, epoch in string.gmatch(list, '(%d+)@(%d+)') do
    members[#members + 1] = {tonumber(node), tonumber(epoch)}
  end
  return members
end

local function format_isr(members)
  local parts = {}
  for i, member in ipairs(members) do parts[i] = text(member[1]) .. '@' .. text(member[2]) end
  return table.concat(parts, ',')
end

local function has_node(members, node)
  for _, member in ipairs(members) do
    if member[1] == node then return true end
  end
  return false
end

-- Brokers are read once a script, since a slice asks for the same few again and again.
local brokers_read = {}
local function cached_broker(id)
  if brokers_read[id] == nil then brokers_read[id] = read_broker(id) end
  return brokers_read[id]
end

local function is_current(member, states)
  local broker = cached_broker(member[1])
  return broker and broker.broker_epoch == member[2] and states[broker.state] or false
end

local function configs_of(name)
  local json = redis.call('HGET', key('configs'), name)
  return json and cjson.decode(json) or {}
end

local min_isr_read = {}
local function min_isr(topic_id)
  if not min_isr_read[topic_id] then
    local name = redis.call('HGET', topic_key(topic_id), 'name')
    local option = 'min.insync.replicas'
    min_isr_read[topic_id] = tonumber(configs_of('topic:' .. name)[option] or configs_of('broker:')[option] or 1)
  end
  return min_isr_read[topic_id]
end

-- The ELR after a change to `isr` (KIP-966): empty once the ISR can commit, else what left it since.
local function next_elr(p, topic_id, isr)
  if #isr >= min_isr(topic_id) then return '' end
  local by_node, nodes = {}, {}
  local function keep(members)
    for _, member in ipairs(members) do
      local broker = cached_broker(member[1])
      if not has_node(isr, member[1]) and broker and member[2] >= broker.lossy_epoch then
        if not by_node[member[1]] then nodes[#nodes + 1] = member[1] end
        by_node[member[1]] = member
      end
    end
  end
  keep(parse_isr(p.elr))
  keep(parse_isr(p.isr))
  table.sort(nodes)
  local kept = {}
  for i, node in ipairs(nodes) do kept[i] = by_node[node] end
  return format_isr(kept)
end

-- The partitions of a slice that are not there yet, checked; or nil and a refusal.
local function new_partitions()
  if #A.partitions < 1 or #A.partitions > MAX_PARTITIONS then
    return nil, refuse('BAD_REQUEST', {message = 'a call takes 1 to 200 partitions'})
  end
  local new = {}
  for _, item in ipairs(A.partitions) do
    if item.partition < 0 or item.partition >= A.total then
      return nil, refuse('BAD_REQUEST', {message = 'partition number'})
    end
    if redis.call('EXISTS', partition_key(A.topic_id, item.partition)) == 0 then
      local isr = {}
      for _, node in ipairs(parse_nodes(item.replicas)) do
        local broker = cached_broker(node)
        if not broker then
          return nil, refuse('INELIGIBLE_BROKER', {message = 'broker ' .. text(node) .. ' is not registered'})
        end
        if broker.state == 'ACTIVE' then isr[#isr + 1] = {node, broker.broker_epoch} end
      end
      if #isr == 0 then
        local words = 'no replica of partition ' .. text(item.partition) .. ' is active'
        return nil, refuse('INELIGIBLE_BROKER', {message = words})
      end
      new[#new + 1] = {partition = item.partition, replicas = item.replicas, isr = format_isr(isr), leader = isr[1][1],
        leader_epoch = 0, partition_epoch = 0}
    end
  end
  return new, nil
end

local function add_partitions(new)
  if #new == 0 then return end
  append('Partition', {topic_id = A.topic_id, partitions = new})
  for _, p in ipairs(new) do
    p.elr, p.nonce = '', ''
    write_partition(A.topic_id, p)
  end
  redis.call('HINCRBY', topic_key(A.topic_id), 'made', #new)
end

local function remove_topic(id, topic)
  for number = 0, topic.total - 1 do
    redis.call('UNLINK', partition_key(id, number))
    redis.call('HDEL', key('hw'), id .. ':' .. text(number))
  end
  redis.call('DEL', topic_key(id))
  redis.call('HDEL', key('tn'), topic.name)
  redis.call('HDEL', key('configs'), 'topic:' .. topic.name)
  append('RemoveTopic', {name = topic.name, topic_id = id})
end

-- The partition that the caller leads, whether this very call was done before, and a refusal.
local function led_partition()
  local refused = check_broker()
  if refused then return nil, nil, refused end
  local p = read_partition(A.topic_id, A.partition)
  if not p then return nil, nil, refuse('NO_TOPIC') end
  if p.leader ~= A.node_id or p.leader_epoch ~= A.leader_epoch then
    return nil, nil, refuse('FENCED_LEADER_EPOCH', change_of(A.topic_id, p))
  end
  if p.partition_epoch == A.partition_epoch + 1 and p.nonce == A.nonce then return p, true, nil end
  if p.partition_epoch ~= A.partition_epoch then
    return nil, nil, refuse('INVALID_UPDATE_VERSION', change_of(A.topic_id, p))
  end
  return p, false, nil
end
