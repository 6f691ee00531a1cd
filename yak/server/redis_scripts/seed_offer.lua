-- One piece of what a broker offers; it counts when all its pieces are here.
local refused = check_seed()
if refused then return refused end
local pieces = offer_key(A.node_id)
if A.chunk == 0 then
  redis.call('UNLINK', pieces)
  redis.call('HDEL', OFFERS, text(A.node_id))
end
redis.call('HSET', pieces, text(A.chunk), A.data)
local complete = redis.call('HLEN', pieces) == A.chunks
if complete then
  A.header.digest, A.header.chunks = A.digest, A.chunks
  redis.call('HSET', OFFERS, text(A.node_id), cjson.encode(A.header))
end
return answer('OK', {complete = complete})
