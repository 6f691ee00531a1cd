-- Allocate a block of producer ids.
local refused = check_broker()
if refused then return refused end
local first = tonumber(cluster.next_pid)
local block = {first = first, next = first + 1000, node_id = A.node_id, broker_epoch = A.broker_epoch}
redis.call('HSET', CLUSTER, 'next_pid', text(block.next))
append('ProducerIds', block)
return answer('OK', {first = first, next = first + 1000})
