-- A broker that is not heard from loses its say.
local refused = check_controller()
if refused then return refused end
local broker = read_broker(A.target_id)
if not broker or broker.broker_epoch ~= A.target_epoch then return refuse('STALE_EPOCH') end
if broker.state == 'ACTIVE' or broker.state == 'STOPPING' then change_broker(A.target_id, broker, 'FENCED') end
return answer('OK')
