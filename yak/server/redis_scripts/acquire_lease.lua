-- Take the controller's office when nobody alive has it; a repeat by its holder changes nothing.
local refused = check_broker()
if refused then return refused end
local holder_id = tonumber(cluster.ctl_id)
local mine = holder_id == A.node_id and tonumber(cluster.ctl_broker_epoch) == A.broker_epoch
local left_ms = redis.call('PTTL', key('lease'))
if left_ms > 0 and not mine then
  local holder = read_broker(holder_id)
  if holder and holder.broker_epoch == tonumber(cluster.ctl_broker_epoch) and holder.state ~= 'CLOSED' then
    return refuse('LEASE_HELD', {controller_id = holder_id, ttl_ms = left_ms})
  end
end
local epoch = tonumber(cluster.ctl_epoch)
if not mine then
  epoch = epoch + 1
  redis.call('HSET', CLUSTER, 'ctl_id', text(A.node_id), 'ctl_epoch', text(epoch), 'ctl_broker_epoch',
    text(A.broker_epoch))
  append('ControllerChange', {controller_id = A.node_id, controller_epoch = epoch, broker_epoch = A.broker_epoch})
end
redis.call('SET', key('lease'), text(A.node_id) .. ':' .. text(epoch), 'PX', text(A.lease_ms))
return answer('OK', {controller_epoch = epoch})
