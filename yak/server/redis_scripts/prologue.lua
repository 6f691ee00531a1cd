-- Put before every script. KEYS[1] is the cluster's hash; all other keys share its hash tag and prefix.
-- ARGV: prefix of the keys, known offset, known chain hash, arguments as JSON.
-- Nothing is rolled back when a script fails, so every script checks everything first and writes afterwards.
local PREFIX = ARGV[1]
local KNOWN_OFFSET = tonumber(ARGV[2])
local KNOWN_HASH = ARGV[3]
local A = cjson.decode(ARGV[4])
local MAX_PARTITIONS = 200

local function key(name) return PREFIX .. name end
local function text(number) return string.format('%.0f', number) end
local function given(value) return value ~= nil and value ~= cjson.null and value ~= '' end

local CLUSTER = KEYS[1]
local LOG = key('log')

-- The cluster's hash as a table; false when there is none.
local function read_hash(name)
  local flat = redis.call('HGETALL', name)
  if #flat == 0 then return false end
  local map = {}
  for i = 1, #flat, 2 do map[flat[i]] = flat[i + 1] end
  return map
end

local cluster = read_hash(CLUSTER)
local offset = cluster and tonumber(cluster.mo) or 0
local hash = cluster and cluster.h or ''

local function answer(code, value)
  return {code, text(offset), hash, cjson.encode(value or {})}
end

local function refuse(code, value) return answer(code, value) end

local function now_ms()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

-- One more record of the metadata log, under the hash chain.
local function append(kind, payload)
  payload.version = 0
  local body = cjson.encode(payload)
  local previous = hash
  offset = offset + 1
  hash = redis.sha1hex(previous .. text(offset) .. kind .. body)
  redis.call('XADD', LOG, text(offset) .. '-0', 'kind', kind, 'payload', body, 'h', hash, 'p', previous,
    't', text(now_ms()))
  redis.call('HSET', CLUSTER, 'mo', text(offset), 'h', hash)
  return offset
end

-- Whether this store holds the caller's cluster and history; a refusal or nil.
local function check_history()
  if not cluster then return refuse('NO_CLUSTER') end
  if given(A.cluster_id) and A.cluster_id ~= cluster.cluster_id then
    return refuse('WRONG_CLUSTER', {cluster_id = cluster.cluster_id})
  end
  if given(A.incarnation_id) and A.incarnation_id ~= cluster.incarnation_id then return refuse('WRONG_INCARNATION') end
  if cluster.state ~= 'LIVE' then return refuse('SEEDING') end
  if offset < KNOWN_OFFSET then return refuse('REGRESSED') end
  if KNOWN_OFFSET == offset then
    if KNOWN_OFFSET > 0 and hash ~= KNOWN_HASH then return refuse('FORKED') end
  elseif KNOWN_OFFSET > 0 then
    local id = ARGV[2] .. '-0'
    local entry = redis.call('XRANGE', LOG, id, id)[1]
    if not entry then return refuse('TRIMMED') end
    local fields = entry[2]
    for i = 1, #fields, 2 do
      if fields[i] == 'h' and fields[i + 1] ~= KNOWN_HASH then return refuse('FORKED') end
    end
  end
  return nil
end

local function broker_key(id) return key('b:' .. text(id)) end

-- A registered broker as a table; false when there is none.
local function read_broker(id)
  local broker = read_hash(broker_key(id))
  if broker then
    broker.broker_epoch = tonumber(broker.broker_epoch)
    broker.lossy_epoch = tonumber(broker.lossy_epoch)
    broker.persisted = tonumber(broker.persisted)
    broker.port = tonumber(broker.port)
  end
  return broker
end

local ME

local function check_broker()
  local refused = check_history()
  if refused then return refused end
  ME = read_broker(A.node_id)
  if not ME or ME.broker_epoch ~= A.broker_epoch or ME.state == 'CLOSED' then return refuse('STALE_BROKER_EPOCH') end
  return nil
end

local function check_controller()
  local refused = check_broker()
  if refused then return refused end
  if tonumber(cluster.ctl_id) ~= A.node_id or tonumber(cluster.ctl_epoch) ~= A.controller_epoch then
    return refuse('FENCED_CONTROLLER', {controller_id = tonumber(cluster.ctl_id)})
  end
  return nil
end

local function change_broker(id, broker, state)
  redis.call('HSET', broker_key(id), 'state', state)
  append('BrokerChange', {node_id = id, broker_epoch = broker.broker_epoch, state = state})
end

-- ------------------------------------------------------------------------------------------ topics and partitions

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
