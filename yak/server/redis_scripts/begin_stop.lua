-- Record the controlled shutdown of a broker: STOPPING at its begin, CLOSED at its end.
local refused = check_broker()
if refused then return refused end
if A.state ~= 'STOPPING' and A.state ~= 'CLOSED' then return refuse('BAD_REQUEST', {message = 'state'}) end
if A.state == 'CLOSED' then
  redis.call('HDEL', key('hb'), text(A.node_id))
  redis.call('SREM', key('full'), text(A.node_id))
end
if ME.state ~= A.state then change_broker(A.node_id, ME, A.state) end
return answer('OK')
