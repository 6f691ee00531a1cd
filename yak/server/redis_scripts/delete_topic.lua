-- Delete a topic by id; the id of a deleted topic is a repeat. 10,000 partitions take about 20 ms.
local refused = check_broker()
if refused then return refused end
local topic = read_topic(A.topic_id)
if topic then remove_topic(A.topic_id, topic) end
return answer('OK', {removed = topic and true or false})
