-- Say what the store holds, once the caller's history was found in it.
local refused = check_history()
if refused then return refused end
local value = {cluster_id = cluster.cluster_id, incarnation_id = cluster.incarnation_id,
  incarnation = tonumber(cluster.incarnation), controller_id = tonumber(cluster.ctl_id),
  controller_epoch = tonumber(cluster.ctl_epoch), secret = redis.call('GET', key('secret')) or ''}
value.broker = caller()
return answer('OK', value)
