-- Open an imported content: from now on it is used.
local refused = check_migration({IMPORTED = true, LIVE = true}) or check_same_migration()
if refused then return refused end
redis.call('HSET', CLUSTER, 'state', 'LIVE')
return answer('OK')
