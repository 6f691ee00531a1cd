-- New leaders, each by compare and set; what cannot be done has its code in `codes`.
local refused = check_controller()
if refused then return refused end
if #A.partitions < 1 or #A.partitions > MAX_PARTITIONS then
  return refuse('BAD_REQUEST', {message = 'a call takes 1 to 200 partitions'})
end
local LIVE = {ACTIVE = true, STOPPING = true}

local function elect(item, p)
  if p.partition_epoch ~= item.partition_epoch then return 'INVALID_UPDATE_VERSION' end
  local members, live = parse_isr(p.isr), {}
  for _, member in ipairs(members) do
    if is_current(member, LIVE) then live[#live + 1] = member end
  end
  local isr, elr
  if item.leader == -1 then
    if has_node(live, p.leader) then return 'INELIGIBLE_REPLICA' end
    isr, elr = members, p.elr
  else
    local broker = cached_broker(item.leader)
    local replicas, is_replica = parse_nodes(p.replicas), false
    for _, node in ipairs(replicas) do is_replica = is_replica or node == item.leader end
    if not broker or broker.state ~= 'ACTIVE' or not is_replica then return 'INELIGIBLE_REPLICA' end
    local kept_all = false
    for _, list in ipairs({members, parse_isr(p.elr)}) do
      for _, member in ipairs(list) do
        kept_all = kept_all or (member[1] == item.leader and member[2] >= broker.lossy_epoch)
      end
    end
    if has_node(live, item.leader) then
      isr = live
    elseif (#live == 0 and kept_all) or (item.unclean and #replicas == 1) then
      isr = {{item.leader, broker.broker_epoch}}
    else
      return 'INELIGIBLE_REPLICA'
    end
    elr = next_elr(p, item.topic_id, isr)
  end
  p.leader, p.isr, p.elr, p.nonce = item.leader, format_isr(isr), elr, ''
  p.leader_epoch, p.partition_epoch = p.leader_epoch + 1, p.partition_epoch + 1
  return 'OK'
end

local codes, changes, changed = {}, {}, {}
for i, item in ipairs(A.partitions) do
  local p = read_partition(item.topic_id, item.partition)
  codes[i] = p and elect(item, p) or 'NO_TOPIC'
  if codes[i] == 'OK' then
    changes[#changes + 1] = change_of(item.topic_id, p, item.unclean)
    changed[#changed + 1] = {item.topic_id, p}
  end
end
for _, pair in ipairs(changed) do write_partition(pair[1], pair[2]) end
if #changes > 0 then append('PartitionChange', {changes = changes}) end
return answer('OK', {codes = codes})
