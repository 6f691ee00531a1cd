-- Freeze the store, and return its content as rows; `yak.metadata_store.content` describes them.
local refused = check_migration()
if refused then return refused end
if cluster.state ~= 'LIVE' and cluster.state ~= 'EXPORTED' then return refuse(FROZEN[cluster.state] or 'SEEDING') end
redis.call('HSET', CLUSTER, 'state', 'EXPORTED', 'migration_id', text(A.migration_id))

local hashes, sets, log = {}, {}, {}
-- The caller has a snapshot in place of earlier records. The content still has records that some broker lacks.
local from = A.log_from or 0
local function add_hash(name)
  local fields = read_hash(key(name))
  if fields then hashes[#hashes + 1] = {name, fields} end
end

for _, name in ipairs({'cluster', 'hb', 'tn', 'configs', 'guests', 'snapshot'}) do add_hash(name) end
for _, id in pairs(read_hash(key('tn')) or {}) do
  add_hash('t:' .. id)
  local total = tonumber(redis.call('HGET', key('t:' .. id), 'total') or 0)
  for number = 0, total - 1 do add_hash('p:' .. id .. ':' .. text(number)) end
end
for _, name in ipairs({'brokers', 'full', 'unregistered'}) do
  local nodes = redis.call('SMEMBERS', key(name))
  table.sort(nodes, function(one, other) return tonumber(one) < tonumber(other) end)
  if #nodes > 0 then sets[#sets + 1] = {name, nodes} end
  if name == 'brokers' then
    for _, node in ipairs(nodes) do
      add_hash('b:' .. node)
      local broker = read_broker(tonumber(node))
      if broker and broker.state ~= 'CLOSED' then from = math.min(from, broker.persisted) end
    end
  end
end
for i, entry in ipairs(redis.call('XRANGE', LOG, text(math.max(from, 0)) .. '-0', '+')) do
  local found, fields = {}, entry[2]
  for each = 1, #fields, 2 do found[fields[each]] = fields[each + 1] end
  local record_offset = tonumber(string.match(entry[1], '^%d+'))
  log[i] = {record_offset, found.kind, found.payload, found.h, found.p, tonumber(found.t)}
end
local secret = redis.call('GET', key('secret')) or ''
return answer('OK', {content = {hashes = hashes, sets = sets, secret = secret, log = log}})
