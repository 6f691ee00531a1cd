-- Replace the content of the store by a snapshot, which begins a new incarnation of the cluster.
local refused = check_seeding()
if refused then return refused end

for _, id in pairs(read_hash(key('tn')) or {}) do
  local total = tonumber(redis.call('HGET', key('t:' .. id), 'total') or 0)
  for number = 0, total - 1 do redis.call('UNLINK', key('p:' .. id .. ':' .. text(number))) end
  redis.call('DEL', key('t:' .. id))
end
for _, node in ipairs(redis.call('SMEMBERS', key('brokers'))) do redis.call('DEL', broker_key(tonumber(node))) end
redis.call('UNLINK', key('tn'), key('brokers'), key('unregistered'), key('configs'), key('hb'), key('full'), key('hw'),
  key('leo'), LOG, OFFERS)

local image = cjson.decode(A.snapshot)

for _, broker in ipairs(image.brokers) do
  local id, epoch = broker_key(broker.node_id), text(broker.broker_epoch)
  -- The broker may have acknowledged records in its last registration: a disk without that one has lost data.
  redis.call('HSET', id, 'broker_epoch', epoch, 'boot_id', broker.boot_id, 'directories', broker.directories, 'host',
    broker.host, 'port', text(broker.port), 'role', broker.role, 'state', broker.state, 'lossy',
    broker.lossy_epoch == broker.broker_epoch and '1' or '0', 'lossy_epoch', text(broker.lossy_epoch), 'acted_epoch',
    epoch, 'fast_fenced_ms', 0, 'persisted', 0, 'http_port', text(broker.http_port or 0))
  if given(broker.rack) then redis.call('HSET', id, 'rack', broker.rack) end
  redis.call('SADD', key('brokers'), text(broker.node_id))
end
for node in string.gmatch(image.unregistered, '(%d+)@') do redis.call('SADD', key('unregistered'), node) end

local function write_partitions(id, partitions)
  for _, p in ipairs(partitions) do
    redis.call('HSET', key('p:' .. id .. ':' .. text(p.partition)), 'replicas', p.replicas, 'isr', p.isr, 'elr', p.elr,
      'leader', text(p.leader), 'leader_epoch', text(p.leader_epoch), 'partition_epoch', text(p.partition_epoch),
      'nonce', '', 'adding', p.adding or '', 'removing', p.removing or '')
  end
end

local function write_configs(name, configs)
  if next(configs) ~= nil then redis.call('HSET', key('configs'), name, cjson.encode(configs)) end
end

-- The snapshot does not have the creator: an incomplete topic has none.
local function write_topic(topic, total, made, complete)
  redis.call('HSET', key('tn'), topic.name, topic.topic_id)
  redis.call('HSET', key('t:' .. topic.topic_id), 'name', topic.name, 'total', text(total), 'made', text(made),
    'complete', complete and 1 or 0, 'creator_id', -1, 'creator_epoch', 0)
  write_configs('topic:' .. topic.name, topic.configs)
end

local growing = {}
for _, topic in ipairs(image.pending) do
  growing[topic.topic_id] = topic
  write_topic(topic, topic.total, #topic.partitions, false)
  write_partitions(topic.topic_id, topic.partitions)
end
for _, topic in ipairs(image.topics) do
  local more = growing[topic.topic_id]
  local made = #topic.partitions
  if more then made = math.max(made, #more.partitions) end
  write_topic(topic, more and more.total or made, made, true)
  write_partitions(topic.topic_id, topic.partitions)
end
for _, each in ipairs(image.broker_configs) do write_configs('broker:' .. text(each.node_id), each.configs) end
write_configs('broker:', image.default_broker_configs)
for _, each in ipairs(image.group_configs) do write_configs('group:' .. each.group_id, each.configs) end
for _, each in ipairs(image.user_credentials or {}) do write_configs('user:' .. each.user, each.credentials) end
for _, each in ipairs(image.delegation_tokens or {}) do write_configs('token:' .. each.token_id, each.configs) end
for _, each in ipairs(image.quotas or {}) do write_configs('quota:' .. each.entity, each.configs) end
for _, each in ipairs(image.acls or {}) do write_configs('acl:' .. each.pattern, each.configs) end

redis.call('DEL', key('snapshot'))
redis.call('HSET', key('snapshot'), 'offset', text(A.offset), 'h', A.hash, 't', text(now_ms()), 'payload', A.snapshot)
redis.call('HDEL', CLUSTER, 'before_restore')
redis.call('HSET', CLUSTER, 'incarnation', text(A.incarnation), 'incarnation_id', A.new_incarnation_id, 'state', 'LIVE',
  'ctl_id', -1, 'ctl_epoch', text(A.controller_epoch), 'ctl_broker_epoch', 0, 'lease_n', 0, 'next_pid',
  text(A.next_producer_id), 'format', 0, 'parents', A.parents, 'took_part', cjson.encode(A.took_part), 'lost',
  text(A.lost))
offset, hash = A.offset, A.hash
local ids = {cluster_id = cluster.cluster_id, incarnation_id = A.new_incarnation_id, incarnation = A.incarnation}
-- The log has the number of partitions that went on although acknowledged records may be missing.
ids.format, ids.lost = 0, A.lost
append('Cluster', ids)
return answer('OK')
