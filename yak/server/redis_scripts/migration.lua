-- This file follows the prologue in scripts that move a cluster's metadata to another store, or from it.
local NEWEST = cluster and tonumber(cluster.migration_id or 0) or 0
local IS_SAME = NEWEST == A.migration_id

-- Refuse another cluster, and an older migration than the store's newest.
local function check_migration()
  if not cluster then return refuse('NO_CLUSTER') end
  if given(A.cluster_id) and A.cluster_id ~= cluster.cluster_id then
    return refuse('WRONG_CLUSTER', {cluster_id = cluster.cluster_id})
  end
  if A.migration_id < NEWEST then return refuse('STALE_MIGRATION', {migration_id = NEWEST}) end
  return nil
end

-- Change the state of the cluster. Refuse unless the old or new state belongs to this migration. Returns the refusal or nil,
-- and whether this call changed the state.
local function change_state(before, after)
  local refused = check_migration()
  if refused then return refused, false end
  -- A projection of a quorum may have replaced the state MOVED.
  local state = cluster.state == 'PROJECTION' and 'MOVED' or cluster.state
  if IS_SAME and state == after then return nil, false end
  if IS_SAME and state == before then
    redis.call('HSET', CLUSTER, 'state', after)
    return nil, true
  end
  if state == 'MOVED' then return refuse('MOVED'), false end
  local held = cluster.state .. ' in migration ' .. text(NEWEST)
  return refuse('BAD_REQUEST', {message = 'the store is ' .. held}), false
end

-- Delete all keys but the cluster's hash.
local function delete_content()
  for _, id in pairs(read_hash(key('tn')) or {}) do
    local total = tonumber(redis.call('HGET', key('t:' .. id), 'total') or 0)
    for number = 0, total - 1 do redis.call('UNLINK', key('p:' .. id .. ':' .. text(number))) end
    redis.call('DEL', key('t:' .. id))
  end
  -- An interrupted projection may have partitions of a deleted topic.
  for _, name in ipairs({'hw', 'leo'}) do
    for _, place in ipairs(redis.call('HKEYS', key(name))) do redis.call('UNLINK', key('p:' .. place)) end
  end
  for _, node in ipairs(redis.call('SMEMBERS', key('brokers'))) do redis.call('DEL', key('b:' .. node)) end
  redis.call('UNLINK', key('tn'), key('brokers'), key('unregistered'), key('configs'), key('hb'), key('full'), key('hw'),
    key('leo'), key('guests'), key('secret'), key('snapshot'), key('offers'), LOG)
end
