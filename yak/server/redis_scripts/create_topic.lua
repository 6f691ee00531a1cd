-- Create a topic with its first partitions; the same id again is a repeat. A repeat that arrives after the topic was
-- deleted, in the same boot of its creator, must not create it again: the script looks for its id in the last removals.
local REMOVALS_LOOKED_AT = 1000
local function was_removed()
  local newest = redis.call('XREVRANGE', LOG, '+', text(A.broker_epoch + 1) .. '-0', 'COUNT', REMOVALS_LOOKED_AT)
  for _, entry in ipairs(newest) do
    if entry[2][2] == 'RemoveTopic' and cjson.decode(entry[2][4]).topic_id == A.topic_id then return true end
  end
  return false
end

-- The topic that collides with this new one (metrics write '.' as '_'); nil when there is none.
local function collision()
  if not string.find(A.name, '[._]') then return nil end
  local names = '\n' .. table.concat(redis.call('HKEYS', key('tn')), '\n') .. '\n'
  local wanted = string.gsub('\n' .. A.name .. '\n', '%.', '_')
  local from, to = string.find(string.gsub(names, '%.', '_'), wanted, 1, true)
  return from and string.sub(names, from + 1, to - 1)
end

local refused = check_broker()
if refused then return refused end
local held = redis.call('HGET', key('tn'), A.name)
local half_made
if held == A.topic_id then return answer('OK', {created = false}) end
if held then
  half_made = read_topic(held)
  if not is_abandoned(half_made) then
    return refuse('TOPIC_EXISTS', {message = 'topic ' .. A.name .. ' exists'})
  end
end
local other = not held and A.refuses_collision and collision()
if other then
  return refuse('TOPIC_COLLIDES', {message = "Topic '" .. A.name .. "' collides with existing topic: " .. other})
end
if was_removed() then return refuse('NO_TOPIC', {message = 'topic ' .. A.name .. ' was deleted meanwhile'}) end
local new, bad = new_partitions()
if bad then return bad end
if half_made then remove_topic(held, half_made) end
redis.call('HSET', key('tn'), A.name, A.topic_id)
redis.call('HSET', topic_key(A.topic_id), 'name', A.name, 'total', text(A.total), 'made', 0, 'complete', 0,
  'creator_id', text(A.node_id), 'creator_epoch', text(A.broker_epoch))
if next(A.configs) then redis.call('HSET', key('configs'), 'topic:' .. A.name, cjson.encode(A.configs)) end
append('Topic', {name = A.name, topic_id = A.topic_id, partitions = A.total, configs = A.configs})
add_partitions(new)
return answer('OK', {created = true})
