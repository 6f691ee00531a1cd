-- A boot of a broker gets its epoch (the offset of its registration) and starts FENCED.
local refused = check_history()
if refused then return refused end
local old = read_broker(A.node_id)
if old and old.state ~= 'CLOSED' then
  if old.boot_id == A.boot_id then return answer('OK', {broker_epoch = old.broker_epoch}) end
  -- A shared directory proves that the old boot is dead: its lock was free.
  local shared = false
  for directory in string.gmatch(A.directories, '[^,]+') do
    for held in string.gmatch(old.directories, '[^,]+') do shared = shared or held == directory end
  end
  local counter = tonumber(redis.call('HGET', key('hb'), text(A.node_id)) or 0)
  if not shared and A.observed_heartbeat ~= counter then
    return refuse('NODE_ID_IN_USE', {heartbeat = counter, host = old.host, port = old.port, boot_id = old.boot_id})
  end
end
local epoch = offset + 1
local lossy_epoch = A.lossy and epoch or (old and old.lossy_epoch or 0)
local id = broker_key(A.node_id)
redis.call('HSET', id, 'broker_epoch', text(epoch), 'boot_id', A.boot_id, 'directories', A.directories, 'host', A.host,
  'port', text(A.port), 'role', A.role, 'state', 'FENCED', 'lossy_epoch', text(lossy_epoch), 'persisted', 0)
if given(A.rack) then redis.call('HSET', id, 'rack', A.rack) else redis.call('HDEL', id, 'rack') end
redis.call('SADD', key('brokers'), text(A.node_id))
append('RegisterBroker', {node_id = A.node_id, broker_epoch = epoch, boot_id = A.boot_id, directories = A.directories,
  host = A.host, port = A.port, rack = given(A.rack) and A.rack or cjson.null, role = A.role, lossy = A.lossy})
return answer('OK', {broker_epoch = epoch})
