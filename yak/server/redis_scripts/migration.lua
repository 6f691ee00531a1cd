-- Put behind the prologue of the scripts that move the whole content to another store, or take it from one.

-- Refuses another cluster, an old migration id, and a store in another state than these.
local function check_migration(allowed)
  if not cluster then return refuse('NO_CLUSTER') end
  if A.cluster_id ~= cluster.cluster_id then return refuse('WRONG_CLUSTER', {cluster_id = cluster.cluster_id}) end
  local newest = tonumber(cluster.migration_id or 0)
  if A.migration_id < newest then return refuse('STALE_MIGRATION', {migration_id = newest}) end
  if allowed[cluster.state] then return nil end
  return refuse(cluster.state == 'LIVE' and 'CLUSTER_IN_USE' or MOVING[cluster.state] or 'SEEDING')
end

local function check_same_migration()
  if A.migration_id == tonumber(cluster.migration_id or 0) then return nil end
  return refuse('BAD_REQUEST', {message = 'the store takes part in no migration of this id'})
end

-- The names of the hashes of the content, without the prefix.
local function hash_names()
  local names = {'cluster', 'tn', 'configs', 'hb', 'guests', 'snapshot'}
  for _, node in ipairs(redis.call('SMEMBERS', key('brokers'))) do names[#names + 1] = 'b:' .. node end
  for _, id in ipairs(redis.call('HVALS', key('tn'))) do
    names[#names + 1] = 't:' .. id
    local total = tonumber(redis.call('HGET', key('t:' .. id), 'total') or 0)
    for number = 0, total - 1 do names[#names + 1] = 'p:' .. id .. ':' .. text(number) end
  end
  return names
end

local SETS = {'brokers', 'unregistered', 'full'}

-- Delete everything but the cluster's hash.
local function delete_content()
  for _, name in ipairs(hash_names()) do
    if name ~= 'cluster' then redis.call('UNLINK', key(name)) end
  end
  for _, name in ipairs(SETS) do redis.call('UNLINK', key(name)) end
  redis.call('UNLINK', key('hw'), key('leo'), key('secret'), key('offers'), LOG)
end
