-- Put behind the prologue of the scripts about guests: brokers that are no YAK brokers. They stand in a hash of their own, so
-- that nothing that looks at brokers ever meets one.
local GUESTS = key('guests')

local function read_guest(id)
  local found = redis.call('HGET', GUESTS, text(id))
  return found and cjson.decode(found)
end

-- What its records say of a guest.
local function told(guest, more)
  local payload = {version = 1, guest = true, node_id = A.target_id, broker_epoch = guest.broker_epoch, host = guest.host,
    port = guest.port, rack = guest.rack, security_protocol = guest.security_protocol}
  for name, value in pairs(more) do payload[name] = value end
  return payload
end

local function write_guest(guest)
  guest.changed = offset
  redis.call('HSET', GUESTS, text(A.target_id), cjson.encode(guest))
end
