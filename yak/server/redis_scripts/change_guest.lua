-- Change a guest, or close it: compare its epoch, and count it up. The same nonce again is a repeat.
local refused = check_broker()
if refused then return refused end
local guest = read_guest(A.target_id)
if not guest then return refuse('NO_BROKER') end
if guest.broker_epoch == A.target_epoch + 1 and guest.nonce == A.nonce then
  return answer('OK', {broker_epoch = guest.broker_epoch})
end
if guest.broker_epoch ~= A.target_epoch then
  return refuse('STALE_EPOCH', {message = 'broker ' .. text(A.target_id) .. ' is at epoch ' .. text(guest.broker_epoch)})
end
if A.state ~= 'ACTIVE' and A.state ~= 'CLOSED' then return refuse('BAD_REQUEST', {message = 'state'}) end
for _, name in ipairs({'host', 'port', 'rack', 'security_protocol', 'state', 'nonce'}) do guest[name] = A[name] end
guest.broker_epoch = guest.broker_epoch + 1
append('BrokerChange', told(guest, {state = guest.state}))
write_guest(guest)
return answer('OK', {broker_epoch = guest.broker_epoch})
