-- Remove an incomplete topic that is overdue, or of a dead creator. For a topic whose CreatePartitions stopped, return the missing partitions.
local refused = check_controller()
if refused then return refused end
local topic = read_topic(A.topic_id)
if not topic or topic.made >= topic.total then return answer('OK', {removed = false}) end
if topic.complete then
  local missing = {}
  for number = 0, topic.total - 1 do
    if redis.call('EXISTS', partition_key(A.topic_id, number)) == 0 then missing[#missing + 1] = number end
  end
  return answer('OK', {removed = false, missing = missing, total = topic.total})
end
local removed = A.is_overdue == true or is_abandoned(topic)
if removed then remove_topic(A.topic_id, topic) end
return answer('OK', {removed = removed})
