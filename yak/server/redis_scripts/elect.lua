-- Elect leaders, each by compare and set. `codes` has the error of each election that was refused.
local refused = check_controller() or check_size()
if refused then return refused end

-- Former members that are ACTIVE and kept all they had: with no member alive, any of them may lead.
local function clean_candidates(p, members)
  local nodes, count = {}, 0
  for _, list in ipairs({members, parse_isr(p.elr)}) do
    for _, member in ipairs(list) do
      if kept_all(member) and cached_broker(member[1]).state == 'ACTIVE' then
        nodes[member[1]], count = true, count + 1
      end
    end
  end
  return nodes, count
end

-- Whether the config that allowed an unclean election has changed since the caller's image. A request of a client, or of an
-- earlier version, names none.
local UNCLEAN = 'unclean.leader.election.enable'
local function unclean_config_changed(item)
  if item.unclean_config == nil or item.unclean_config == cjson.null then return false end
  local topic = redis.call('HGET', topic_key(item.topic_id), 'name')
  return (configs_of('topic:' .. topic)[UNCLEAN] or configs_of('broker:')[UNCLEAN] or '') ~= item.unclean_config
end

-- A code, whether the partition has changed, and whether its election was unclean.
local function elect(item, p)
  if p.partition_epoch ~= item.partition_epoch then return 'INVALID_UPDATE_VERSION', false end
  local members = parse_isr(p.isr)
  local live = current_members(members, LIVE)
  local isr, elr, unclean = members, p.elr, false
  if item.leader == -1 then
    if has_node(live, p.leader) then return 'INELIGIBLE_REPLICA', false end
    p.leader = -1
  else
    local broker = cached_broker(item.leader)
    if not broker or broker.state ~= 'ACTIVE' or not node_set(p.replicas)[item.leader] then
      return 'INELIGIBLE_REPLICA', false
    end
    local clean, count = clean_candidates(p, members)
    unclean = #live == 0 and count == 0 and item.unclean == true
    if unclean and unclean_config_changed(item) then return 'INVALID_UPDATE_VERSION', false end
    if has_node(live, item.leader) then
      isr = live
    elseif unclean or (#live == 0 and clean[item.leader]) then
      isr = {{item.leader, broker.broker_epoch}}
    else
      return 'INELIGIBLE_REPLICA', false
    end
    p.leader = item.leader
    elr = unclean and '' or next_elr(p, isr, min_isr(item.topic_id, p))
  end
  p.isr, p.elr, p.nonce = format_isr(isr), elr, ''
  p.leader_epoch, p.partition_epoch = p.leader_epoch + 1, p.partition_epoch + 1
  return 'OK', true, unclean
end

return change_each(elect)
