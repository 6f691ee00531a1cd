-- Let the store serve again: the other store did not open the exported content.
local refused = change_state('EXPORTED', 'LIVE')
if refused then return refused end
return answer('OK')
