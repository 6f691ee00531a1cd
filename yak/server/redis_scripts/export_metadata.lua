-- Freeze the store, and return its content as rows of text.
local refused = check_migration({LIVE = true, EXPORTED = true})
if refused then return refused end
redis.call('HSET', CLUSTER, 'state', 'EXPORTED', 'migration_id', text(A.migration_id))
local content = {hashes = {}, sets = {}, secret = redis.call('GET', key('secret')) or '', log = {}}
for _, name in ipairs(hash_names()) do
  local fields = read_hash(key(name))
  if fields then content.hashes[#content.hashes + 1] = {name, fields} end
end
for _, name in ipairs(SETS) do
  local members = redis.call('SMEMBERS', key(name))
  table.sort(members)
  if #members > 0 then content.sets[#content.sets + 1] = {name, members} end
end
for _, entry in ipairs(redis.call('XRANGE', LOG, '-', '+')) do
  local fields = {}
  for i = 1, #entry[2], 2 do fields[entry[2][i]] = entry[2][i + 1] end
  local id = string.match(entry[1], '%d+')
  content.log[#content.log + 1] = {id, fields.kind, fields.payload, fields.h, fields.p, fields.t}
end
return answer('OK', {content = content})
