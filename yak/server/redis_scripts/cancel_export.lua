-- Let the store serve again: its content was not opened elsewhere.
local refused = change_state('EXPORTED', 'LIVE')
if refused then return refused end
return answer('OK')
