-- Store high watermarks, which never decrease, and log end offsets of replicas. Those of an older epoch are ignored.
local refused = check_broker()
if refused then return refused end

-- A call may name thousands of partitions: one command reads or writes many fields.
local AT_ONCE = 1000
local known_topics = {}
local function is_topic(id)
  if known_topics[id] == nil then known_topics[id] = redis.call('EXISTS', topic_key(id)) == 1 end
  return known_topics[id]
end

local function read_fields(name, fields)
  local values = redis.call('HMGET', name, unpack(fields))
  local held = {}
  for i, field in ipairs(fields) do held[field] = values[i] end
  return held
end

local function report(first, last)
  local items, fields = {}, {}
  for i = first, last do
    local item = A.partitions[i]
    if is_topic(item[1]) then
      items[#items + 1] = item
      fields[#fields + 1] = item[1] .. ':' .. text(item[2])
    end
  end
  if #items == 0 then return end
  local hw, leo, new_hw, new_leo = read_fields(key('hw'), fields), read_fields(key('leo'), fields), {}, {}
  for i, item in ipairs(items) do
    local field = fields[i]
    local epoch, value = string.match(hw[field] or '0:0', '(%d+):(%d+)')
    if item[3] >= tonumber(epoch) and item[4] >= tonumber(value) then
      hw[field] = text(item[3]) .. ':' .. text(item[4])
      new_hw[#new_hw + 1], new_hw[#new_hw + 2] = field, hw[field]
    end
    if item[3] >= tonumber(string.match(leo[field] or '"le":0', '"le":(%d+)')) then
      leo[field] = cjson.encode({le = item[3], leo = item[5]})
      new_leo[#new_leo + 1], new_leo[#new_leo + 2] = field, leo[field]
    end
  end
  if #new_hw > 0 then redis.call('HSET', key('hw'), unpack(new_hw)) end
  if #new_leo > 0 then redis.call('HSET', key('leo'), unpack(new_leo)) end
end

for first = 1, #A.partitions, AT_ONCE do report(first, math.min(first + AT_ONCE - 1, #A.partitions)) end
return answer('OK')
