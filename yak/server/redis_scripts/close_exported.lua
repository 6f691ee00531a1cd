-- Delete the content that the other store now serves. The cluster's id and last offset remain.
local refused, changed = change_state('EXPORTED', 'MOVED')
if refused then return refused end
if changed then
  delete_content()
  redis.call('DEL', CLUSTER)
  redis.call('HSET', CLUSTER, 'cluster_id', cluster.cluster_id, 'incarnation', cluster.incarnation, 'incarnation_id',
    cluster.incarnation_id, 'state', 'MOVED', 'migration_id', text(A.migration_id), 'mo', cluster.mo, 'h', cluster.h)
end
return answer('OK')
