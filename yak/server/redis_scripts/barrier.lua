-- Raise the partition epoch, so that an older change still under way must fail.
local p, repeated, refused = led_partition()
if refused then return refused end
if not repeated then
  p.nonce, p.partition_epoch = A.nonce, p.partition_epoch + 1
  write_partition(A.topic_id, p)
  append('PartitionChange', {changes = {change_of(A.topic_id, p)}})
end
return answer('OK', change_of(A.topic_id, p))
