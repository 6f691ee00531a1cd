-- A broker leaves the ISR: its log directory failed, or its log is gone (`lost`), and it then leaves the ELR too.
local refused = check_broker() or check_size()
if refused then return refused end

local function without_me(members)
  local rest = {}
  for _, member in ipairs(members) do
    if member[1] ~= A.node_id then rest[#rest + 1] = member end
  end
  return rest
end

local function any_kept_all(members)
  for _, member in ipairs(members) do
    if kept_all(member) then return true end
  end
  return false
end

-- Whether no other replica could lead. A member of the ISR or ELR that may have lost records does not replace the last one
-- that has all.
local function is_last(item, isr, rest, elr)
  local may_elr_lead = any_kept_all(without_me(elr))
  if #rest == 0 then return not (item.lost and may_elr_lead) end
  for _, members in ipairs({isr, elr}) do
    for _, member in ipairs(members) do
      if member[1] == A.node_id then return kept_all(member) and not any_kept_all(rest) and not may_elr_lead end
    end
  end
end

-- Otherwise an AlterPartition of a leader that still counts the lost log could add it to the ISR.
local function void_changes_under_way(p)
  p.nonce, p.partition_epoch = '', p.partition_epoch + 1
end

-- Elect the eligible leader that the last member of the ISR named, whose own log is offline. Returns whether it could.
local function yield_to(item, p, elr)
  local successor = parse_isr(item.yields_to or '')[1]
  if not successor or not is_current(successor, ACTIVE) then return false end
  for _, member in ipairs(elr) do
    if member[1] == successor[1] and kept_all(member) then
      p.leader = successor[1]
      p.elr = next_elr(p, {successor}, min_isr(item.topic_id, p))
      p.isr, p.leader_epoch = format_isr({successor}), p.leader_epoch + 1
      void_changes_under_way(p)
      return true
    end
  end
  return false
end

-- Returns the code, and whether the partition changed.
local function leave(item, p)
  local isr, elr = parse_isr(p.isr), parse_isr(p.elr)
  local is_member = has_node(isr, A.node_id)
  if not is_member and not has_node(elr, A.node_id) then
    if item.lost then void_changes_under_way(p) end
    return 'OK', item.lost
  end
  if not is_member and not item.lost then return 'OK', false end
  local rest = without_me(isr)
  if is_last(item, isr, rest, elr) then
    if is_member and not item.lost and yield_to(item, p, elr) then return 'OK', true end
    return 'LAST_MEMBER', false
  end
  local kept = p.elr
  if is_member then kept = next_elr(p, rest, minimum_for_elr(item, p)) end
  if item.lost then kept = format_isr(without_me(parse_isr(kept))) end
  p.isr, p.elr = format_isr(rest), kept
  void_changes_under_way(p)
  if p.leader == A.node_id then p.leader, p.leader_epoch = -1, p.leader_epoch + 1 end
  return 'OK', true
end

return change_each(leave)
