-- Store a snapshot, and delete records that all brokers have on disk.
local refused = check_controller()
if refused then return refused end
local id = text(A.snapshot_offset) .. '-0'
local entry = redis.call('XRANGE', LOG, id, id)[1]
local found
if entry then
  for i = 1, #entry[2], 2 do
    if entry[2][i] == 'h' then found = entry[2][i + 1] end
  end
end
if found ~= A.snapshot_hash then
  return refuse('BAD_REQUEST', {message = 'the snapshot is not of this history'})
end
local upto = A.snapshot_offset - A.keep
for _, node in ipairs(redis.call('SMEMBERS', key('brokers'))) do
  local broker = read_broker(tonumber(node))
  if broker and broker.state ~= 'CLOSED' then upto = math.min(upto, broker.persisted) end
end
redis.call('HSET', key('snapshot'), 'offset', text(A.snapshot_offset), 'h', A.snapshot_hash, 't', text(now_ms()),
  'payload', A.snapshot)
local trimmed = 0
if upto > 0 then trimmed = redis.call('XTRIM', LOG, 'MINID', text(upto) .. '-0') end
return answer('OK', {trimmed = trimmed})
