-- Write the merged state in slices. It is used only after the last one; whoever begins anew takes a half-written one over.
local refused = check_seed()
if refused then return refused end

local function remove_old_state()
  for _, id in pairs(read_hash(key('tn')) or {}) do
    local total = tonumber(redis.call('HGET', key('t:' .. id), 'total') or 0)
    for number = 0, total - 1 do redis.call('UNLINK', key('p:' .. id .. ':' .. text(number))) end
    redis.call('DEL', key('t:' .. id))
  end
  for _, node in ipairs(redis.call('SMEMBERS', key('brokers'))) do redis.call('DEL', broker_key(tonumber(node))) end
  redis.call('UNLINK', key('tn'), key('brokers'), key('unregistered'), key('configs'), key('hb'),
    key('full'), key('hw'), key('leo'), LOG, key('snapshot'), key('seed:snapshot'))
end

local write = {}
function write.brokers(broker)
  local id = broker_key(broker.node_id)
  redis.call('HSET', id, 'broker_epoch', text(broker.broker_epoch), 'boot_id', broker.boot_id, 'directories',
    broker.directories, 'host', broker.host, 'port', text(broker.port), 'role', broker.role, 'state', broker.state,
    'lossy', broker.lossy and '1' or '0', 'lossy_epoch', text(broker.lossy_epoch), 'acted_epoch',
    text(broker.acted_epoch), 'fast_fenced_ms', 0, 'persisted', 0, 'http_port',
    text(broker.http_port or 0))
  if given(broker.rack) then redis.call('HSET', id, 'rack', broker.rack) end
  redis.call('SADD', key('brokers'), text(broker.node_id))
end
function write.unregistered(node) redis.call('SADD', key('unregistered'), text(node)) end
function write.topics(topic)
  redis.call('HSET', key('tn'), topic.name, topic.topic_id)
  -- Who was creating it is not known any more: a half-made one is nobody's.
  redis.call('HSET', key('t:' .. topic.topic_id), 'name', topic.name, 'total', text(topic.total), 'made',
    text(topic.made), 'complete', topic.complete and 1 or 0, 'creator_id', -1, 'creator_epoch', 0)
end
function write.partitions(p)
  local name = key('p:' .. p.topic_id .. ':' .. text(p.partition))
  redis.call('DEL', name)
  redis.call('HSET', name, 'replicas', p.replicas, 'isr', p.isr, 'elr', p.elr, 'leader', text(p.leader), 'leader_epoch',
    text(p.leader_epoch), 'partition_epoch', text(p.partition_epoch), 'nonce', '', 'adding', p.adding, 'removing',
    p.removing)
  if p.held > 0 then redis.call('HSET', name, 'held', text(p.held)) end
end
function write.configs(item) redis.call('HSET', key('configs'), item.name, cjson.encode(item.configs)) end
function write.snapshot(piece) redis.call('APPEND', key('seed:snapshot'), piece) end

if A.step == 'begin' then
  if offers_digest() ~= A.offers_digest then return refuse('OFFERS_CHANGED') end
  remove_old_state()
  redis.call('HSET', SEED, 'token', A.token, 'slices', 0)
  return answer('OK')
end
if redis.call('HGET', SEED, 'token') ~= A.token then return refuse('SEED_OVER') end
if A.step == 'write' then
  for _, item in ipairs(A.items) do write[A.what](item) end
  redis.call('HINCRBY', SEED, 'slices', 1)
  return answer('OK')
end
if tonumber(redis.call('HGET', SEED, 'slices')) ~= A.slices then
  return refuse('BAD_REQUEST', {message = 'a slice of the new state is missing'})
end
redis.call('HSET', key('snapshot'), 'offset', text(A.offset), 'h', A.hash, 't', text(now_ms()), 'payload',
  redis.call('GET', key('seed:snapshot')))
redis.call('HSET', CLUSTER, 'incarnation', text(A.incarnation), 'incarnation_id', A.new_incarnation_id, 'state', 'LIVE',
  'ctl_id', -1, 'ctl_epoch', text(A.controller_epoch), 'ctl_broker_epoch', 0, 'lease_n', 0, 'next_pid',
  text(A.next_producer_id), 'format', 0, 'parents', A.parents, 'took_part', cjson.encode(A.took_part), 'held_for',
  A.held_for, 'lost', text(A.lost))
forget_seed()
offset, hash = A.offset, A.hash
local ids = {cluster_id = cluster.cluster_id, incarnation_id = A.new_incarnation_id, incarnation = A.incarnation}
-- How much went on although acknowledged records may be missing stands in the log for good.
ids.format, ids.lost = 0, A.lost
append('Cluster', ids)
return answer('OK')
