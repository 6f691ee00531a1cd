-- Delete an exported content, which the other store has.
local refused = check_migration({EXPORTED = true, MOVED = true}) or check_same_migration()
if refused then return refused end
delete_content()
redis.call('DEL', CLUSTER)
for _, name in ipairs({'cluster_id', 'incarnation', 'incarnation_id', 'migration_id', 'mo', 'h'}) do
  redis.call('HSET', CLUSTER, name, cluster[name])
end
redis.call('HSET', CLUSTER, 'state', 'MOVED')
return answer('OK')
