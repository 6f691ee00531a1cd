-- Begin, replace or cancel reassignments, each by compare and set; `codes` has the result of each.
local refused = check_broker() or check_size()
if refused then return refused end

-- The nodes of a list that are not in a set, or (with `inside`) those that are.
local function filter(nodes, set, inside)
  local chosen = {}
  for _, node in ipairs(nodes) do
    if (set[node] or false) == (inside or false) then chosen[#chosen + 1] = node end
  end
  return chosen
end

local function may_hold(target)
  local seen = {}
  for _, node in ipairs(target) do
    if seen[node] or not cached_broker(node) then return false end
    seen[node] = true
  end
  return #target > 0
end

-- Take new replicas; false when nobody who has everything could go on.
local function change_replicas(item, p, new)
  local isr, leader = limited_isr(p, node_set(new.replicas)), p.leader
  if #isr < #parse_isr(p.isr) then
    -- Replicas of an earlier target go. They may have what nobody else has, unless a live member stays.
    if #current_members(isr, LIVE) == 0 then return false end
    local stays = leader_of(p, new.replicas, isr)
    if not stays and leader ~= -1 then return false end
    leader = stays or leader
  end
  take_replicas(p, new.replicas, leader)
  p.adding, p.removing = new.adding, new.removing
  p.elr = next_elr(p, isr, minimum_for_elr(item, p))
  p.isr, p.nonce, p.partition_epoch = format_isr(isr), '', p.partition_epoch + 1
  complete(p)
  return true
end

-- A code, and whether anything was changed.
local function alter(item, p)
  local cancel = item.replicas == cjson.null
  if cancel and p.adding == '' and p.removing == '' then return 'NO_REASSIGNMENT', false end
  local present = parse_nodes(p.replicas)
  local aimed_at = format_nodes(filter(present, node_set(p.removing)))
  if p.partition_epoch ~= item.partition_epoch then
    local repeated = p.partition_epoch == item.partition_epoch + 1 and item.replicas == aimed_at
    return repeated and 'OK' or 'INVALID_UPDATE_VERSION', false
  end
  local old = filter(present, node_set(p.adding))
  local new = {replicas = format_nodes(old), adding = '', removing = ''}
  if not cancel then
    local target = parse_nodes(item.replicas)
    if not may_hold(target) then return 'INELIGIBLE_BROKER', false end
    if item.replicas == aimed_at then return 'OK', false end
    local removing = filter(old, node_set(item.replicas))
    new.adding = format_nodes(filter(target, node_set(format_nodes(old))))
    new.removing = format_nodes(removing)
    for _, node in ipairs(removing) do target[#target + 1] = node end
    new.replicas = format_nodes(target)
  end
  if not change_replicas(item, p, new) then return 'INELIGIBLE_REPLICA', false end
  return 'OK', true
end

return change_each(alter)
