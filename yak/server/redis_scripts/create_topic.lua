-- Create a topic with its first partitions; the same id again is a repeat.
local refused = check_broker()
if refused then return refused end
local held = redis.call('HGET', key('tn'), A.name)
local half_made
if held == A.topic_id then return answer('OK', {created = false}) end
if held then
  half_made = read_topic(held)
  local alive = {ACTIVE = true, FENCED = true, STOPPING = true}
  if half_made.made >= half_made.total or is_current({half_made.creator_id, half_made.creator_epoch}, alive) then
    return refuse('TOPIC_EXISTS', {message = 'topic ' .. A.name .. ' exists'})
  end
end
local new, bad = new_partitions()
if bad then return bad end
-- Its creator died between two slices; nobody has seen it.
if half_made then remove_topic(held, half_made) end
redis.call('HSET', key('tn'), A.name, A.topic_id)
redis.call('HSET', topic_key(A.topic_id), 'name', A.name, 'total', text(A.total), 'made', 0,
  'creator_id', text(A.node_id), 'creator_epoch', text(A.broker_epoch))
if next(A.configs) then redis.call('HSET', key('configs'), 'topic:' .. A.name, cjson.encode(A.configs)) end
append('Topic', {name = A.name, topic_id = A.topic_id, partitions = A.total, configs = A.configs})
add_partitions(new)
return answer('OK', {created = true})
