-- A broker finds that this store lost its history: from now on nothing is changed here, and brokers offer what they know.
if cluster and given(A.cluster_id) and A.cluster_id ~= cluster.cluster_id then
  return refuse('WRONG_CLUSTER', {cluster_id = cluster.cluster_id})
end
if cluster and cluster.state == 'SEEDING' then
  return answer('OK', {seed_nonce = redis.call('HGET', SEED, 'nonce'), begun = false})
end
local brokers, was = {}, ''
if cluster then
  if A.incarnation_id == cluster.incarnation_id then
    local refused = check_history()
    if not refused then return refuse('NOT_LOST') end
    if refused[1] ~= 'REGRESSED' and refused[1] ~= 'FORKED' then return refused end
  elseif tonumber(cluster.incarnation) >= A.incarnation and not is_held_for(A.node_id) then
    return refuse('WRONG_INCARNATION', incarnation())
  end
  was = cluster.state
  for _, node in ipairs(redis.call('SMEMBERS', key('brokers'))) do
    local broker = read_broker(tonumber(node))
    if broker then brokers[node] = {broker.broker_epoch, broker.boot_id, broker.acted_epoch} end
  end
else
  redis.call('HSET', CLUSTER, 'cluster_id', A.cluster_id, 'incarnation', 0, 'incarnation_id', '', 'mo', 0, 'h', '')
end
forget_seed()
redis.call('HSET', CLUSTER, 'state', 'SEEDING')
redis.call('HSET', SEED, 'nonce', A.new_seed_nonce, 'begun_ms', text(now_ms()), 'begun_by', text(A.node_id), 'was', was,
  'offset', text(offset), 'incarnation', cluster and cluster.incarnation or '0', 'brokers', cjson.encode(brokers))
return answer('OK', {seed_nonce = A.new_seed_nonce, begun = true})
