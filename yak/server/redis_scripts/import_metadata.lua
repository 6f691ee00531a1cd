-- Replace what the store holds by the content of the other store; `state` is IMPORTED, or LIVE to open it at once.
-- A projection of the same cluster may be replaced as well (yak/server/redis_projection.py).
if cluster then
  local held = cluster.state
  local is_done = tonumber(cluster.migration_id or 0) == A.migration_id and (held == 'IMPORTED' or held == 'LIVE')
  local refused = check_migration({MOVED = true, EXPORTED = true, IMPORTED = true, PROJECTION = true, LIVE = is_done})
  if refused then return refused end
  if is_done then return answer('OK') end
end

-- As many fields in one call as Lua can pass.
local AT_ONCE = 1000
local function write_hash(name, fields)
  local flat = {}
  for field, value in pairs(fields) do
    flat[#flat + 1], flat[#flat + 2] = field, value
    if #flat == AT_ONCE then
      redis.call('HSET', name, unpack(flat))
      flat = {}
    end
  end
  if #flat > 0 then redis.call('HSET', name, unpack(flat)) end
end

delete_content()
redis.call('DEL', CLUSTER)
for _, pair in ipairs(A.content.hashes) do
  -- Of the other store's clock.
  if string.sub(pair[1], 1, 2) == 'b:' then pair[2].fast_fenced_ms = '0' end
  write_hash(key(pair[1]), pair[2])
end
for _, pair in ipairs(A.content.sets) do
  for _, member in ipairs(pair[2]) do redis.call('SADD', key(pair[1]), member) end
end
if A.content.secret ~= '' then redis.call('SET', key('secret'), A.content.secret) end
for _, entry in ipairs(A.content.log) do
  redis.call('XADD', LOG, entry[1] .. '-0', 'kind', entry[2], 'payload', entry[3], 'h', entry[4], 'p', entry[5], 't',
    entry[6])
end
redis.call('HSET', CLUSTER, 'state', A.state, 'migration_id', text(A.migration_id))
redis.call('HDEL', CLUSTER, 'projected_epoch')
cluster = read_hash(CLUSTER)
offset, hash = tonumber(cluster.mo), cluster.h
return answer('OK')
