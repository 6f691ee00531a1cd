-- Go on with an exported content: the other store did not take it.
local refused = check_migration({EXPORTED = true, LIVE = true}) or check_same_migration()
if refused then return refused end
redis.call('HSET', CLUSTER, 'state', 'LIVE')
return answer('OK')
