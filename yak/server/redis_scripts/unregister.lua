-- Remove the registration of a broker that will not return.
local refused = check_broker()
if refused then return refused end
local broker = read_broker(A.target_id)
if not broker then return refuse('NO_BROKER') end
local is_back = given(A.target_epoch) and A.target_epoch ~= broker.broker_epoch
if is_back or broker.state == 'ACTIVE' or broker.state == 'STOPPING' then return refuse('BROKER_ACTIVE') end
redis.call('DEL', broker_key(A.target_id))
redis.call('SREM', key('brokers'), text(A.target_id))
redis.call('SADD', key('unregistered'), text(A.target_id))
redis.call('HDEL', key('hb'), text(A.target_id))
redis.call('SREM', key('full'), text(A.target_id))
append('UnregisterBroker', {node_id = A.target_id, broker_epoch = broker.broker_epoch})
return answer('OK')
