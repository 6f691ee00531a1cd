-- Take high watermarks; they never go back.
local refused = check_broker()
if refused then return refused end
local hw = key('hw')
for _, item in ipairs(A.partitions) do
  local field = item[1] .. ':' .. text(item[2])
  local epoch, value = string.match(redis.call('HGET', hw, field) or '0:0', '(%d+):(%d+)')
  if item[3] >= tonumber(epoch) and item[4] >= tonumber(value) and redis.call('EXISTS', topic_key(item[1])) == 1 then
    redis.call('HSET', hw, field, text(item[3]) .. ':' .. text(item[4]))
  end
end
return answer('OK')
