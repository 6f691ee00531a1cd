-- Give a restore up that wrote nothing yet: the store is as it was.
local refused = check_seed()
if refused then return refused end
if redis.call('HEXISTS', SEED, 'token') == 1 then return refuse('HALF_DONE') end
local was = redis.call('HGET', SEED, 'was')
forget_seed()
if was == '' then redis.call('DEL', CLUSTER) else redis.call('HSET', CLUSTER, 'state', was) end
return answer('OK')
