-- Make the caller the controller, if there is none, or if the caller's claim on the lease is valid. A repeat by the
-- controller changes nothing.
local refused = check_broker()
if refused then return refused end
local holder_id, holder_epoch = tonumber(cluster.ctl_id), tonumber(cluster.ctl_broker_epoch)
local epoch, renewals = tonumber(cluster.ctl_epoch), tonumber(cluster.lease_n or 0)
if holder_id == A.node_id and holder_epoch == A.broker_epoch then return answer('OK', {controller_epoch = epoch}) end

local holder = read_broker(holder_id)
local gone = not holder or holder.broker_epoch ~= holder_epoch or holder_id == A.node_id
-- A FENCED controller has just registered and unfences itself next. If it is dead, its lease is not renewed.
local free = gone or holder.state == 'CLOSED'
  or (ME.role == 'leader' and ME.state == 'ACTIVE' and holder.role == 'follower')
local stood_still = A.claimed_renewals == renewals
if not free then
  -- A FENCED broker too may take a lease that was not renewed: after a failure of all brokers no live one is ACTIVE.
  local fast = A.fast == true and ME.state == 'ACTIVE' and may_fence_fast(holder_id)
  if A.claimed_epoch ~= epoch or not (stood_still or fast) then
    return refuse('LEASE_HELD', {controller_id = holder_id, controller_epoch = epoch, lease_n = renewals})
  end
end

if not free then
  if not stood_still then note_fast_fence(holder_id) end
  if holder.state ~= 'FENCED' then change_broker(holder_id, holder, 'FENCED') end
end
epoch = epoch + 1
redis.call('HSET', CLUSTER, 'ctl_id', text(A.node_id), 'ctl_epoch', text(epoch), 'ctl_broker_epoch',
  text(A.broker_epoch))
append('ControllerChange', {controller_id = A.node_id, controller_epoch = epoch, broker_epoch = A.broker_epoch})
return answer('OK', {controller_epoch = epoch})
