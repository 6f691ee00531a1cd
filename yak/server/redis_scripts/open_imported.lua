-- Let the store serve what was imported.
local refused = change_state('IMPORTED', 'LIVE')
if refused then return refused end
return answer('OK')
