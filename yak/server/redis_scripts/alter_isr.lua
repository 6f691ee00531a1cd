-- The leader changes ISRs, each by compare and set; a reassignment with all its targets in the ISR is completed.
local refused = check_broker() or check_size()
if refused then return refused end

-- A code, and words about it.
local function alter(item, p)
  local isr, replicas, seen, inside = parse_isr(item.isr), node_set(p.replicas), {}, {}
  if not has_node(isr, A.node_id) then return 'INELIGIBLE_REPLICA', 'the leader is not in the new ISR' end
  for _, member in ipairs(isr) do
    if seen[member[1]] then return 'INELIGIBLE_REPLICA', 'a replica is in the new ISR twice' end
    seen[member[1]] = true
  end
  for _, member in ipairs(parse_isr(p.isr)) do inside[member[1]] = member[2] end
  for _, member in ipairs(isr) do
    -- A broker that stops may stay until it has gone, but not come in (KIP-841).
    local states = inside[member[1]] == member[2] and LIVE or ACTIVE
    if not replicas[member[1]] or not is_current(member, states) then
      return 'INELIGIBLE_REPLICA', 'replica ' .. text(member[1]) .. '@' .. text(member[2])
    end
  end
  p.elr = next_elr(p, isr, math.min(item.min_isr, min_isr(item.topic_id, p)))
  p.isr, p.nonce, p.partition_epoch = format_isr(isr), item.nonce, p.partition_epoch + 1
  complete(p)
  return 'OK'
end

local results, changed = {}, {}
for i, item in ipairs(A.partitions) do
  local p = cached_partition(item.topic_id, item.partition)
  if not p then
    results[i] = {code = 'NO_TOPIC'}
  else
    local repeated, code = is_repeat(item, p)
    local words
    if not repeated and not code then
      code, words = alter(item, p)
      if code == 'OK' then changed[#changed + 1] = {item.topic_id, p} end
    end
    results[i] = change_of(item.topic_id, p)
    results[i].code, results[i].message = code or 'OK', words
  end
end
write_changes(changed)
return answer('OK', {results = results})
