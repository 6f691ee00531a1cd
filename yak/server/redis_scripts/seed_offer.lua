-- Store the image of a broker whose history this store lost. From then on the store refuses all other calls.
local OFFERS = key('offers')
local function begin(before)
  redis.call('UNLINK', OFFERS)
  redis.call('HSET', CLUSTER, 'before_restore', before)
end
if not cluster then
  redis.call('HSET', CLUSTER, 'cluster_id', A.cluster_id, 'incarnation', 0, 'incarnation_id', '', 'mo', 0, 'h', '')
  begin('')
else
  if given(A.cluster_id) and A.cluster_id ~= cluster.cluster_id then
    return refuse('WRONG_CLUSTER', {cluster_id = cluster.cluster_id})
  end
  local frozen = check_not_frozen()
  if frozen then return frozen end
  if cluster.state == 'LIVE' then
    if A.incarnation_id == cluster.incarnation_id then
      local refused = check_history()
      if not refused then return refuse('NOT_LOST') end
      if refused[1] ~= 'REGRESSED' and refused[1] ~= 'FORKED' then return refused end
    elseif tonumber(cluster.incarnation) >= A.incarnation then
      return refuse('WRONG_INCARNATION', incarnation())
    end
    begin('LIVE')
  end
end
redis.call('HSET', CLUSTER, 'state', 'SEEDING')
redis.call('HSET', OFFERS, text(A.node_id), A.offer)
return answer('OK')
