-- Make a FENCED broker ACTIVE, once it has its own registration on disk.
local refused = check_controller()
if refused then return refused end
local broker = read_broker(A.target_id)
if not broker or broker.broker_epoch ~= A.target_epoch then return refuse('STALE_EPOCH') end
if A.target_id ~= A.node_id and broker.persisted < broker.broker_epoch then return refuse('NOT_CAUGHT_UP') end
if broker.state == 'FENCED' then change_broker(A.target_id, broker, 'ACTIVE') end
broker.state = broker.state == 'FENCED' and 'ACTIVE' or broker.state
note_acted(A.target_id, broker)
return answer('OK')
