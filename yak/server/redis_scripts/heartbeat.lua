-- Count up; the controller's also renews its lease, and it gets everyone's counters.
local refused = check_broker()
if refused then return refused end
redis.call('HINCRBY', key('hb'), text(A.node_id), 1)
redis.call('HSET', broker_key(A.node_id), 'persisted', text(A.persisted))
ME.persisted = A.persisted
note_acted(A.node_id, ME)
local held = tonumber(cluster.ctl_id) == A.node_id and tonumber(cluster.ctl_broker_epoch) == A.broker_epoch
local value = {state = ME.state, controller_id = tonumber(cluster.ctl_id),
  controller_epoch = tonumber(cluster.ctl_epoch), lease_n = tonumber(cluster.lease_n or 0)}
if held and A.controller_epoch == value.controller_epoch then
  value.lease_n = redis.call('HINCRBY', CLUSTER, 'lease_n', 1)
end
if held then
  value.heartbeats = {}
  for id, counter in pairs(read_hash(key('hb'))) do value.heartbeats[id] = tonumber(counter) end
end
return answer('OK', value)
