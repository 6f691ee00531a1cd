-- Check the caller's history, and return the state of the cluster.
local refused = check_history()
if refused then return refused end
local value = {cluster_id = cluster.cluster_id, incarnation_id = cluster.incarnation_id,
  incarnation = tonumber(cluster.incarnation), controller_id = tonumber(cluster.ctl_id),
  controller_epoch = tonumber(cluster.ctl_epoch), secret = redis.call('GET', key('secret')) or ''}
value.broker = caller()
return answer('OK', value)
