-- Replace the content of the store by rows of the other store, frozen (`IMPORTED`) or open (`LIVE`).
if A.state ~= 'IMPORTED' and A.state ~= 'LIVE' then return refuse('BAD_REQUEST', {message = 'state'}) end
if cluster then
  local refused = check_migration()
  if refused then return refused end
  if cluster.state == 'SEEDING' then return refuse('SEEDING') end
  if IS_SAME and (cluster.state == 'IMPORTED' or cluster.state == 'LIVE') then return answer('OK') end
  if cluster.state == 'LIVE' then return refuse('CLUSTER_IN_USE') end
end

local content, imported = A.content, nil
for _, row in ipairs(content.hashes) do
  if row[1] == 'cluster' then imported = row[2] end
end
if not imported or imported.cluster_id ~= A.cluster_id then
  return refuse('BAD_REQUEST', {message = 'the content is of another cluster'})
end
local log_end = tonumber(imported.mo)
for i, row in ipairs(content.log) do
  if row[1] ~= log_end - #content.log + i then
    return refuse('BAD_REQUEST', {message = "the content's log is incomplete"})
  end
end
if #content.log == 0 then return refuse('BAD_REQUEST', {message = "the content's log is incomplete"}) end

-- A call takes only so many values.
local AT_ONCE = 2000
local function write(command, name, values)
  for first = 1, #values, AT_ONCE do
    redis.call(command, name, unpack(values, first, math.min(first + AT_ONCE - 1, #values)))
  end
end

delete_content()
redis.call('DEL', CLUSTER)
imported.state, imported.migration_id = A.state, text(A.migration_id)
for _, row in ipairs(content.hashes) do
  local name, fields, values = row[1], row[2], {}
  -- A time of the other store's clock.
  if string.sub(name, 1, 2) == 'b:' then fields.fast_fenced_ms = '0' end
  for field, value in pairs(fields) do values[#values + 1], values[#values + 2] = field, value end
  redis.call('DEL', key(name))
  write('HSET', key(name), values)
end
for _, row in ipairs(content.sets) do write('SADD', key(row[1]), row[2]) end
if given(content.secret) then redis.call('SET', key('secret'), content.secret) end
for _, row in ipairs(content.log) do
  redis.call('XADD', LOG, text(row[1]) .. '-0', 'kind', row[2], 'payload', row[3], 'h', row[4], 'p', row[5], 't',
    text(row[6]))
end
offset, hash = log_end, imported.h
return answer('OK')
