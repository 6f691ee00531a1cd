-- Register a boot of a broker, or a fenced broker again. Its broker epoch is the offset of the registration, and it starts
-- FENCED.
local refused = check_history()
if refused then return refused end
local old = read_broker(A.node_id)

-- The secret by which brokers authenticate each other: that of the first registration, which every later one gets.
local function agree_on_secret()
  if given(A.secret) then redis.call('SETNX', key('secret'), A.secret) end
  return redis.call('GET', key('secret')) or ''
end

-- Count the directories of `one` that are in `other`, and those that are not.
local function compare_directories(one, other)
  local shared, missing = 0, 0
  for directory in string.gmatch(one, '[^,]+') do
    local found = false
    for held in string.gmatch(other, '[^,]+') do found = found or held == directory end
    if found then shared = shared + 1 else missing = missing + 1 end
  end
  return shared, missing
end

local shared, missing = 0, 0
if old then shared, missing = compare_directories(old.directories, A.directories) end
if old and old.state ~= 'CLOSED' then
  -- A renewal of an epoch before the present one is a repeat.
  local renews = A.renew == true and (A.broker_epoch == 0 or A.broker_epoch == old.broker_epoch)
  if old.boot_id == A.boot_id and not renews then
    return answer('OK', {broker_epoch = old.broker_epoch, lossy = old.lossy, secret = agree_on_secret()})
  end
  -- A shared directory proves that the other boot has ended: its lock was free.
  local counter = tonumber(redis.call('HGET', key('hb'), text(A.node_id)) or 0)
  if old.boot_id ~= A.boot_id and shared == 0 and A.observed_heartbeat ~= counter then
    return refuse('NODE_ID_IN_USE', {heartbeat = counter, host = old.host, port = old.port, boot_id = old.boot_id})
  end
end

-- A disk has lost data if it lacks a directory, or the registration of the newest boot that may have acknowledged records, or
-- metadata that an earlier boot had persisted: the log of a new topic may be lost too.
local last_epoch = given(A.last_epoch) and A.last_epoch or 0
local lacks_metadata = old and old.boot_id ~= A.boot_id and given(A.persisted) and A.persisted < old.persisted
-- An unregistered broker has no data that counts: earlier ISRs and ELRs with its id are not its own.
local returns = redis.call('SREM', key('unregistered'), text(A.node_id)) == 1
local lossy = A.lossy or returns or (old and (missing > 0 or lacks_metadata or last_epoch < old.acted_epoch)) or false
local epoch = offset + 1
local lossy_epoch = lossy and epoch or (old and old.lossy_epoch or 0)
local id = broker_key(A.node_id)
redis.call('HSET', id, 'broker_epoch', text(epoch), 'boot_id', A.boot_id, 'directories', A.directories, 'host', A.host,
  'port', text(A.port), 'role', A.role, 'state', 'FENCED', 'lossy', lossy and '1' or '0', 'lossy_epoch',
  text(lossy_epoch), 'acted_epoch', text(old and old.acted_epoch or 0), 'fast_fenced_ms', 0, 'persisted',
  text(old and old.persisted or 0), -- until the first heartbeat of this boot: a later one could have an older disk
  'min_isr', text(A.min_isr or 1), 'http_port', text(A.http_port or 0))
if given(A.rack) then redis.call('HSET', id, 'rack', A.rack) else redis.call('HDEL', id, 'rack') end
redis.call('SADD', key('brokers'), text(A.node_id))
append('RegisterBroker', {node_id = A.node_id, broker_epoch = epoch, boot_id = A.boot_id, directories = A.directories,
  host = A.host, port = A.port, rack = given(A.rack) and A.rack or cjson.null, role = A.role, lossy = lossy,
  http_port = A.http_port or 0, endpoints = A.endpoints ~= '' and A.endpoints or nil})
return answer('OK', {broker_epoch = epoch, lossy = lossy, secret = agree_on_secret()})
