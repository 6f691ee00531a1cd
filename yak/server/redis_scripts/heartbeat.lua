-- Count up; the controller gets everyone's counters.
local refused = check_broker()
if refused then return refused end
redis.call('HINCRBY', key('hb'), text(A.node_id), 1)
redis.call('HSET', broker_key(A.node_id), 'persisted', text(A.persisted))
local value = {state = ME.state, controller_id = tonumber(cluster.ctl_id),
  controller_epoch = tonumber(cluster.ctl_epoch), lease_ms = math.max(0, redis.call('PTTL', key('lease')))}
if value.controller_id == A.node_id then
  value.heartbeats = {}
  for id, counter in pairs(read_hash(key('hb'))) do value.heartbeats[id] = tonumber(counter) end
end
return answer('OK', value)
