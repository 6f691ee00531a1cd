-- How far a restore is: who offered what, and what the store itself held when it began.
if not cluster or cluster.state ~= 'SEEDING' then return answer('OK', {seed_nonce = ''}) end
local seed = read_hash(SEED) or {}
local offers = {}
for node, header in pairs(read_hash(OFFERS) or {}) do offers[node] = cjson.decode(header) end
return answer('OK', {seed_nonce = seed.nonce or '', begun_by = tonumber(seed.begun_by or 0),
  age_ms = now_ms() - tonumber(seed.begun_ms or 0), offset = tonumber(seed.offset or 0),
  incarnation = tonumber(seed.incarnation or 0), brokers = cjson.decode(seed.brokers or '{}'), offers = offers,
  offers_digest = offers_digest(), cluster_id = cluster.cluster_id, is_committing = seed.token ~= nil,
  parents = (cluster.parents or '') .. ',' .. (cluster.incarnation_id or '')})
