-- This file follows the prologue in scripts by which an operator ends a restore.
local OFFERS = key('offers')

-- Refuse an operator's call unless the offers are those that the operator has read.
local function check_seeding()
  if not cluster then return refuse('NO_CLUSTER') end
  if cluster.state ~= 'SEEDING' then return refuse('SEED_OVER') end
  local nodes, parts = {}, {}
  local offers = read_hash(OFFERS) or {}
  for node in pairs(offers) do nodes[#nodes + 1] = tonumber(node) end
  table.sort(nodes)
  for i, node in ipairs(nodes) do parts[i] = text(node) .. ':' .. offers[text(node)] end
  if redis.sha1hex(table.concat(parts, ',')) ~= A.offers_digest then return refuse('OFFERS_CHANGED') end
  return nil
end
