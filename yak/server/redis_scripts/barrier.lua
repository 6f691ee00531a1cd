-- Raise the partition epoch, so that an older change still under way must fail.
local refused = check_broker()
if refused then return refused end
local p = read_partition(A.topic_id, A.partition)
if not p then return refuse('NO_TOPIC') end
local repeated, bad = is_repeat(A, p)
if bad then return refuse(bad, change_of(A.topic_id, p)) end
if not repeated then
  p.nonce, p.partition_epoch = A.nonce, p.partition_epoch + 1
  write_changes({{A.topic_id, p}})
end
return answer('OK', change_of(A.topic_id, p))
