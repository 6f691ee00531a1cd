-- Increment the caller's counter. The controller's heartbeat also renews its lease and gets all counters. Each broker reports
-- whether its disks are full, and gets the ids of brokers with full disks.
local refused = check_broker()
if refused then return refused end
redis.call('HINCRBY', key('hb'), text(A.node_id), 1)
redis.call('HSET', broker_key(A.node_id), 'persisted', text(A.persisted))
ME.persisted = A.persisted
redis.call(A.is_full == true and 'SADD' or 'SREM', key('full'), text(A.node_id))
note_acted(A.node_id, ME)
local held = tonumber(cluster.ctl_id) == A.node_id and tonumber(cluster.ctl_broker_epoch) == A.broker_epoch
local value = {state = ME.state, controller_id = tonumber(cluster.ctl_id),
  controller_epoch = tonumber(cluster.ctl_epoch), lease_n = tonumber(cluster.lease_n or 0)}
if held and A.controller_epoch == value.controller_epoch then
  value.lease_n = redis.call('HINCRBY', CLUSTER, 'lease_n', 1)
end
-- Brokers without room for another log; an empty table would be sent as an object.
local full = redis.call('SMEMBERS', key('full'))
if #full > 0 then
  for index, id in ipairs(full) do full[index] = tonumber(id) end
  table.sort(full)
  value.full = full
end
if held then
  value.heartbeats = {}
  for id, counter in pairs(read_hash(key('hb'))) do value.heartbeats[id] = tonumber(counter) end
end
return answer('OK', value)
