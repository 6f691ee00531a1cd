-- This file follows the prologue in scripts that read or change topics and partitions.
local MAX_PARTITIONS = 200
local MIN_ISR = 'min.insync.replicas'
local ACTIVE = {ACTIVE = true}
local LIVE = {ACTIVE = true, STOPPING = true}

local function check_size()
  if #A.partitions >= 1 and #A.partitions <= MAX_PARTITIONS then return nil end
  return refuse('BAD_REQUEST', {message = 'a call takes 1 to 200 partitions'})
end

local function topic_key(id) return key('t:' .. id) end
local function partition_key(id, number) return key('p:' .. id .. ':' .. text(number)) end

local function read_topic(id)
  local topic = read_hash(topic_key(id))
  if topic then
    topic.total = tonumber(topic.total)
    topic.made = tonumber(topic.made)
    topic.creator_id = tonumber(topic.creator_id)
    topic.creator_epoch = tonumber(topic.creator_epoch)
    -- A topic from before this field existed may be complete, and must not be removed.
    topic.complete = topic.complete ~= '0'
  end
  return topic
end

local function read_partition(id, number)
  local values = redis.call('HMGET', partition_key(id, number), 'replicas', 'isr', 'elr', 'leader', 'leader_epoch',
    'partition_epoch', 'nonce', 'adding', 'removing')
  if not values[1] then return false end
  return {partition = number, replicas = values[1], isr = values[2], elr = values[3], leader = tonumber(values[4]),
    leader_epoch = tonumber(values[5]), partition_epoch = tonumber(values[6]), nonce = values[7],
    adding = values[8] or '', removing = values[9] or ''}
end

-- A script reads each partition once: its second change of a partition sees the first.
local partitions_read = {}
local function cached_partition(id, number)
  local name = partition_key(id, number)
  if partitions_read[name] == nil then partitions_read[name] = read_partition(id, number) end
  return partitions_read[name]
end

local function write_partition(id, p)
  redis.call('HSET', partition_key(id, p.partition), 'replicas', p.replicas, 'isr', p.isr, 'elr', p.elr,
    'leader', text(p.leader), 'leader_epoch', text(p.leader_epoch), 'partition_epoch', text(p.partition_epoch),
    'nonce', p.nonce, 'adding', p.adding, 'removing', p.removing)
end

local function change_of(id, p, unclean)
  return {topic_id = id, partition = p.partition, replicas = p.replicas, adding = p.adding, removing = p.removing,
    isr = p.isr, elr = p.elr, leader = p.leader, leader_epoch = p.leader_epoch, partition_epoch = p.partition_epoch,
    unclean = unclean or false}
end

-- Write partitions ({topic id, partition, whether its election was unclean}), and their records of a bounded size each.
local function write_changes(changed)
  local changes = {}
  for i, item in ipairs(changed) do
    write_partition(item[1], item[2])
    changes[#changes + 1] = change_of(item[1], item[2], item[3])
    if #changes == MAX_PARTITIONS or i == #changed then
      append('PartitionChange', {changes = changes})
      changes = {}
    end
  end
end

-- Change the partitions of a call one by one. `change` gets an item and its partition, and returns a code, whether the
-- partition has changed, and whether its election was unclean.
local function change_each(change)
  local codes, changed = {}, {}
  for i, item in ipairs(A.partitions) do
    local p = cached_partition(item.topic_id, item.partition)
    local code, has_changed, unclean = 'NO_TOPIC', false, false
    if p then code, has_changed, unclean = change(item, p) end
    codes[i] = code
    if has_changed then changed[#changed + 1] = {item.topic_id, p, unclean} end
  end
  write_changes(changed)
  return answer('OK', {codes = codes})
end

local function parse_nodes(list)
  local nodes = {}
  for node in string.gmatch(list, '[^,]+') do nodes[#nodes + 1] = tonumber(node) end
  return nodes
end

local function format_nodes(nodes)
  local parts = {}
  for i, node in ipairs(nodes) do parts[i] = text(node) end
  return table.concat(parts, ',')
end

local function node_set(list)
  local set = {}
  for _, node in ipairs(parse_nodes(list)) do set[node] = true end
  return set
end

-- Parse `1@17,2@40` to a list of {node, broker epoch}.
local function parse_isr(list)
  local members = {}
  for node, epoch in string.gmatch(list, '(%d+)@(%d+)') do
    members[#members + 1] = {tonumber(node), tonumber(epoch)}
  end
  return members
end

local function format_isr(members)
  local parts = {}
  for i, member in ipairs(members) do parts[i] = text(member[1]) .. '@' .. text(member[2]) end
  return table.concat(parts, ',')
end

local function has_node(members, node)
  for _, member in ipairs(members) do
    if member[1] == node then return true end
  end
  return false
end

-- A script reads each broker once: the partitions of a call have the same few replicas.
local brokers_read = {}
local function cached_broker(id)
  if brokers_read[id] == nil then brokers_read[id] = read_broker(id) end
  return brokers_read[id]
end

local function is_current(member, states)
  local broker = cached_broker(member[1])
  return broker and broker.broker_epoch == member[2] and states[broker.state] or false
end

local function current_members(members, states)
  local current = {}
  for _, member in ipairs(members) do
    if is_current(member, states) then current[#current + 1] = member end
  end
  return current
end

-- Whether the broker still has all records that it had as this member: no later boot may have lost any.
local function kept_all(member)
  local broker = cached_broker(member[1])
  return broker and member[2] >= broker.lossy_epoch or false
end

local function configs_of(name)
  local json = redis.call('HGET', key('configs'), name)
  return json and cjson.decode(json) or {}
end

local min_isr_read = {}
local function min_isr_set(topic_id, leader)
  local name = topic_id .. ':' .. text(leader)
  if not min_isr_read[name] then
    local topic = redis.call('HGET', topic_key(topic_id), 'name')
    local broker = cached_broker(leader)
    min_isr_read[name] = tonumber(configs_of('topic:' .. topic)[MIN_ISR]
      or configs_of('broker:' .. text(leader))[MIN_ISR] or configs_of('broker:')[MIN_ISR]
      or broker and broker.min_isr or 1)
  end
  return min_isr_read[name]
end

-- The `min.insync.replicas` in force: that of the store's configs, else that of the leader's own file; at most the number of
-- replicas.
local function min_isr(topic_id, p) return math.min(min_isr_set(topic_id, p.leader), #parse_nodes(p.replicas)) end

-- Whether no leader commits records: then the ELR stays eligible, and the next election computes it by the new minimum. A call
-- of an earlier version, without `keeps_elr_without_leader`, has the effect that it had then.
local function commits_nothing(item, leader)
  return item.keeps_elr_without_leader == true and not cached_broker(leader)
end

-- The `minimum` for `next_elr` after a change of this item; more than all replicas where no leader commits records.
local function minimum_for_elr(item, p)
  if commits_nothing(item, p.leader) then return #parse_nodes(p.replicas) + 1 end
  return min_isr(item.topic_id, p)
end

-- The ELR after a change of the ISR to `isr` (KIP-966): empty if `isr` has `minimum` members, else the former members. `p`
-- has the old ISR and ELR, and the new leader and replicas. `minimum` must not be above the minimum that the leader uses:
-- a former member is eligible only while the ISR without it cannot commit.
local function next_elr(p, isr, minimum)
  if #isr >= minimum then return '' end
  local replicas, by_node, nodes = node_set(p.replicas), {}, {}
  local function keep(members)
    for _, member in ipairs(members) do
      if replicas[member[1]] and not has_node(isr, member[1]) and kept_all(member) then
        if not by_node[member[1]] then nodes[#nodes + 1] = member[1] end
        by_node[member[1]] = member
      end
    end
  end
  keep(parse_isr(p.elr))
  keep(parse_isr(p.isr))
  table.sort(nodes)
  local kept = {}
  for i, node in ipairs(nodes) do kept[i] = by_node[node] end
  return format_isr(kept)
end

local function limited_isr(p, replicas)
  local isr = {}
  for _, member in ipairs(parse_isr(p.isr)) do
    if replicas[member[1]] then isr[#isr + 1] = member end
  end
  return isr
end

-- The leader with these replicas only: the present leader if it is one of them, else the first ACTIVE member, else false.
local function leader_of(p, replicas, isr)
  if node_set(replicas)[p.leader] then return p.leader end
  local active = current_members(isr, ACTIVE)
  for _, node in ipairs(parse_nodes(replicas)) do
    if has_node(active, node) then return node end
  end
  return false
end

-- Set the replicas and the leader. The leader epoch increases with a new leader, and when a replica is removed: a fetch that
-- the removed replica sent before must not count once it is added again with an empty log (Kafka's PartitionChangeBuilder).
local function take_replicas(p, replicas, leader)
  local stays, moves_on = node_set(replicas), leader ~= p.leader
  for _, node in ipairs(parse_nodes(p.replicas)) do moves_on = moves_on or not stays[node] end
  if moves_on then p.leader, p.leader_epoch = leader, p.leader_epoch + 1 end
  p.replicas = replicas
end

-- Complete a reassignment once every target replica is a live member of the ISR and one of them can lead.
local function complete(p)
  if p.adding == '' and p.removing == '' then return end
  local removing, target = node_set(p.removing), {}
  for _, node in ipairs(parse_nodes(p.replicas)) do
    if not removing[node] then target[#target + 1] = node end
  end
  local replicas = format_nodes(target)
  local isr = limited_isr(p, node_set(replicas))
  if #current_members(isr, LIVE) < #target then return end
  local leader = leader_of(p, replicas, isr)
  if not leader then return end
  take_replicas(p, replicas, leader)
  -- The ISR has all replicas, which is enough for any minimum: no broker is eligible.
  p.isr, p.elr, p.adding, p.removing = format_isr(isr), '', '', ''
end

-- Check the partitions of a call, and return those that do not exist yet; or nil and a refusal.
local function new_partitions()
  local refused = check_size()
  if refused then return nil, refused end
  local new, named = {}, {}
  for _, item in ipairs(A.partitions) do
    if named[item.partition] then return nil, refuse('BAD_REQUEST', {message = 'a partition is named twice'}) end
    named[item.partition] = true
  end
  for _, item in ipairs(A.partitions) do
    if item.partition < 0 or item.partition >= A.total then
      return nil, refuse('BAD_REQUEST', {message = 'partition number'})
    end
    if redis.call('EXISTS', partition_key(A.topic_id, item.partition)) == 0 then
      local isr = {}
      for _, node in ipairs(parse_nodes(item.replicas)) do
        local broker = cached_broker(node)
        if not broker then
          return nil, refuse('INELIGIBLE_BROKER', {message = 'broker ' .. text(node) .. ' is not registered'})
        end
        if broker.state == 'ACTIVE' then isr[#isr + 1] = {node, broker.broker_epoch} end
      end
      if #isr == 0 then
        local words = 'no replica of partition ' .. text(item.partition) .. ' is active'
        return nil, refuse('INELIGIBLE_BROKER', {message = words})
      end
      new[#new + 1] = {partition = item.partition, replicas = item.replicas, isr = format_isr(isr), leader = isr[1][1],
        leader_epoch = 0, partition_epoch = 0}
    end
  end
  return new, nil
end

local function add_partitions(new)
  if #new == 0 then return end
  append('Partition', {topic_id = A.topic_id, partitions = new})
  for _, p in ipairs(new) do
    p.elr, p.nonce, p.adding, p.removing = '', '', '', ''
    write_partition(A.topic_id, p)
  end
  local made = redis.call('HINCRBY', topic_key(A.topic_id), 'made', #new)
  if made >= read_topic(A.topic_id).total then redis.call('HSET', topic_key(A.topic_id), 'complete', 1) end
end

-- Whether the topic's creator failed between two slices, so that no client has seen the topic. A killed creator is FENCED
-- until it restarts, perhaps for ever. A live creator that is fenced finds the topic removed, and creates it again.
local function is_abandoned(topic)
  return not topic.complete and not is_current({topic.creator_id, topic.creator_epoch}, LIVE)
end

local function remove_topic(id, topic)
  for number = 0, topic.total - 1 do
    redis.call('UNLINK', partition_key(id, number))
    redis.call('HDEL', key('hw'), id .. ':' .. text(number))
    redis.call('HDEL', key('leo'), id .. ':' .. text(number))
  end
  redis.call('DEL', topic_key(id))
  redis.call('HDEL', key('tn'), topic.name)
  redis.call('HDEL', key('configs'), 'topic:' .. topic.name)
  append('RemoveTopic', {name = topic.name, topic_id = id})
end

-- Whether the store has applied this call before. If not, also the error for a caller that does not lead or has another
-- epoch, or nil.
local function is_repeat(item, p)
  local next_epoch = p.partition_epoch == item.partition_epoch + 1
  if next_epoch and p.nonce == item.nonce and p.nonce ~= '' then return true, nil end
  if p.leader ~= A.node_id or p.leader_epoch ~= item.leader_epoch then return false, 'FENCED_LEADER_EPOCH' end
  if p.partition_epoch ~= item.partition_epoch then return false, 'INVALID_UPDATE_VERSION' end
  return false, nil
end
