-- Keep the office; a lease that ran out but was not taken is still ours.
local refused = check_controller()
if refused then return refused end
redis.call('SET', key('lease'), text(A.node_id) .. ':' .. text(A.controller_epoch), 'PX', text(A.lease_ms))
return answer('OK')
