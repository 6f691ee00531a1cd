-- List a broker that is no YAK broker. A registration has an id of its own: the same again is a repeat, or comes too late.
local refused = check_broker()
if refused then return refused end
if read_broker(A.target_id) or redis.call('SISMEMBER', key('unregistered'), text(A.target_id)) == 1 then
  return refuse('BROKER_ID_TAKEN', {message = 'broker ' .. text(A.target_id) .. ' is or was a broker of this cluster'})
end
local old = read_guest(A.target_id)
if old and old.boot_id == A.boot_id and old.state == 'ACTIVE' and old.host == A.host and old.port == A.port
  and old.rack == A.rack and old.security_protocol == A.security_protocol then
  return answer('OK', {broker_epoch = old.broker_epoch, created = false})
end
if old and (old.state == 'ACTIVE' or old.boot_id == A.boot_id) then
  return refuse('GUEST_EXISTS', {message = 'broker ' .. text(A.target_id) .. ' is registered'})
end

-- All places taken: the guest that was closed first makes room.
local forgets
if not old and redis.call('HLEN', GUESTS) >= A.guests_max then
  local first
  for id, found in pairs(read_hash(GUESTS)) do
    local guest, number = cjson.decode(found), tonumber(id)
    local is_first = not first or guest.changed < first or (guest.changed == first and number < forgets)
    if guest.state == 'CLOSED' and is_first then first, forgets = guest.changed, number end
  end
  if not forgets then
    return refuse('TOO_MANY_GUESTS', {message = 'there are ' .. text(A.guests_max) .. ' such brokers'})
  end
  redis.call('HDEL', GUESTS, text(forgets))
end

local guest = {broker_epoch = old and old.broker_epoch + 1 or 1, boot_id = A.boot_id, host = A.host, port = A.port,
  rack = A.rack, security_protocol = A.security_protocol, state = 'ACTIVE', nonce = ''}
append('RegisterBroker', told(guest, {boot_id = guest.boot_id, forgets = forgets or cjson.null}))
write_guest(guest)
return answer('OK', {broker_epoch = guest.broker_epoch, created = true})
