-- Create the cluster, unless there is one.
if cluster then
  if given(A.cluster_id) and A.cluster_id ~= cluster.cluster_id then
    return refuse('WRONG_CLUSTER', {cluster_id = cluster.cluster_id})
  end
  local frozen = check_not_frozen()
  if frozen then return frozen end
  if cluster.state ~= 'LIVE' then return refuse('SEEDING') end
  return answer('OK', {cluster_id = cluster.cluster_id, incarnation_id = cluster.incarnation_id,
    incarnation = tonumber(cluster.incarnation), created = false})
end
if redis.call('EXISTS', LOG) == 1 then
  return refuse('BAD_REQUEST', {message = 'the metadata log is there but the cluster hash is not'})
end
redis.call('HSET', CLUSTER, 'cluster_id', A.new_cluster_id, 'incarnation', 1, 'incarnation_id', A.new_incarnation_id,
  'state', 'LIVE', 'mo', 0, 'h', '', 'ctl_id', -1, 'ctl_epoch', 0, 'ctl_broker_epoch', 0, 'lease_n', 0,
  'next_pid', 0, 'format', 0)
local ids = {cluster_id = A.new_cluster_id, incarnation_id = A.new_incarnation_id, incarnation = 1}
ids.format = 0
append('Cluster', ids)
return answer('OK', {cluster_id = A.new_cluster_id, incarnation_id = A.new_incarnation_id, incarnation = 1,
  created = true})
