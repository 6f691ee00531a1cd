-- Fence a broker whose session has ended. A fence on mere suspicion (`fast`) is bounded in number for some time.
local refused = check_controller()
if refused then return refused end
local broker = read_broker(A.target_id)
if not broker or broker.broker_epoch ~= A.target_epoch then return refuse('STALE_EPOCH') end
if broker.state == 'ACTIVE' or broker.state == 'STOPPING' then
  if A.fast == true then
    if not may_fence_fast(A.target_id) then return refuse('TOO_MANY_FENCED') end
    note_fast_fence(A.target_id)
  end
  change_broker(A.target_id, broker, 'FENCED')
end
return answer('OK')
