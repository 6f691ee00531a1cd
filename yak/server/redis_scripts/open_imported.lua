-- Let the store serve the imported content.
local refused = change_state('IMPORTED', 'LIVE')
if refused then return refused end
return answer('OK')
