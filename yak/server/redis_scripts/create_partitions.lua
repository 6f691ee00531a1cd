-- Add partitions to a topic: further slices of a new one, or CreatePartitions. A total that the topic already has is a repeat
-- if the call's id is that of the last change of the total, and a second request otherwise.
local refused = check_broker()
if refused then return refused end
local topic = read_topic(A.topic_id)
if not topic then return refuse('NO_TOPIC') end
if A.total < topic.total then
  return refuse('INVALID_PARTITIONS', {message = 'the topic has ' .. text(topic.total) .. ' partitions'})
end
if given(A.growth_id) and A.total == topic.total and A.growth_id ~= topic.growth_id then
  return refuse('INVALID_PARTITIONS', {message = 'Topic already has ' .. text(topic.total) .. ' partitions.'})
end
local new, bad = new_partitions()
if bad then return bad end
if A.total > topic.total then
  redis.call('HSET', topic_key(A.topic_id), 'total', text(A.total), 'growth_id', A.growth_id or '')
  append('Topic', {name = topic.name, topic_id = A.topic_id, partitions = A.total})
end
add_partitions(new)
return answer('OK')
