-- One piece of a broker's offer.
local refused = check_seed()
if refused then return refused end
local data = redis.call('HGET', offer_key(A.of_node), text(A.chunk))
if not data then return refuse('OFFERS_CHANGED') end
return answer('OK', {data = data})
