-- Put behind the prologue of the scripts that rebuild the store from what brokers offer (reliability rules 4.8, design C).
local SEED = key('seed')
local OFFERS = key('seed:offers')

local function offer_key(id) return key('seed:o:' .. text(id)) end

-- Refuses who does not take part in the restore that is under way.
local function check_seed()
  if not cluster then return refuse('NO_CLUSTER') end
  if given(A.cluster_id) and A.cluster_id ~= cluster.cluster_id then
    return refuse('WRONG_CLUSTER', {cluster_id = cluster.cluster_id})
  end
  if cluster.state ~= 'SEEDING' or redis.call('HGET', SEED, 'nonce') ~= A.seed_nonce then return refuse('SEED_OVER') end
  return nil
end

-- One digest of all offers that are complete.
local function offers_digest()
  local nodes, parts = {}, {}
  local offers = read_hash(OFFERS) or {}
  for node in pairs(offers) do nodes[#nodes + 1] = tonumber(node) end
  table.sort(nodes)
  for i, node in ipairs(nodes) do
    parts[i] = text(node) .. ':' .. cjson.decode(offers[text(node)]).digest
  end
  return redis.sha1hex(table.concat(parts, ','))
end

local function forget_seed()
  for _, node in ipairs(redis.call('HKEYS', OFFERS)) do redis.call('UNLINK', offer_key(tonumber(node))) end
  redis.call('UNLINK', SEED, OFFERS, key('seed:snapshot'))
end
