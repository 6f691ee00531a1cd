-- Take high watermarks, which never go back, and the replicas' log ends; neither is taken from an older epoch.
local refused = check_broker()
if refused then return refused end
local hw, leo = key('hw'), key('leo')
for _, item in ipairs(A.partitions) do
  if redis.call('EXISTS', topic_key(item[1])) == 1 then
    local field = item[1] .. ':' .. text(item[2])
    local epoch, value = string.match(redis.call('HGET', hw, field) or '0:0', '(%d+):(%d+)')
    if item[3] >= tonumber(epoch) and item[4] >= tonumber(value) then
      redis.call('HSET', hw, field, text(item[3]) .. ':' .. text(item[4]))
    end
    local held = redis.call('HGET', leo, field)
    if not held or item[3] >= cjson.decode(held).le then
      redis.call('HSET', leo, field, cjson.encode({le = item[3], leo = item[5]}))
    end
  end
end
return answer('OK')
