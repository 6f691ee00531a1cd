-- The leader changes the ISR.
local p, repeated, refused = led_partition()
if refused then return refused end
if not repeated then
  local isr = parse_isr(A.isr)
  if not has_node(isr, A.node_id) then
    return refuse('INELIGIBLE_REPLICA', {message = 'the leader is not in the new ISR'})
  end
  local replicas = {}
  for _, node in ipairs(parse_nodes(p.replicas)) do replicas[node] = true end
  for _, member in ipairs(isr) do
    if not replicas[member[1]] or not is_current(member, {ACTIVE = true}) then
      return refuse('INELIGIBLE_REPLICA', {message = 'replica ' .. text(member[1]) .. '@' .. text(member[2])})
    end
  end
  p.elr = next_elr(p, A.topic_id, isr)
  p.isr, p.nonce, p.partition_epoch = A.isr, A.nonce, p.partition_epoch + 1
  write_partition(A.topic_id, p)
  append('PartitionChange', {changes = {change_of(A.topic_id, p)}})
end
return answer('OK', change_of(A.topic_id, p))
