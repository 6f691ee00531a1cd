-- Every script begins with this file. KEYS[1] is the cluster's hash; all other keys share its hash tag and prefix.
-- ARGV: prefix of the keys, known offset, known chain hash, arguments as JSON.
-- Redis does not roll back a script that fails. So each script checks all arguments before its first write.
local PREFIX = ARGV[1]
local KNOWN_OFFSET = tonumber(ARGV[2])
local KNOWN_HASH = ARGV[3]
local A = cjson.decode(ARGV[4])

local function key(name) return PREFIX .. name end
local function text(number) return string.format('%.0f', number) end
local function given(value) return value ~= nil and value ~= cjson.null and value ~= '' end

local CLUSTER = KEYS[1]
local LOG = key('log')

-- Read a hash as a table; false if there is none.
local function read_hash(name)
  local flat = redis.call('HGETALL', name)
  if #flat == 0 then return false end
  local map = {}
  for i = 1, #flat, 2 do map[flat[i]] = flat[i + 1] end
  return map
end

local cluster = read_hash(CLUSTER)
local offset = cluster and tonumber(cluster.mo) or 0
local hash = cluster and cluster.h or ''

local function answer(code, value)
  return {code, text(offset), hash, cjson.encode(value or {})}
end

local function refuse(code, value) return answer(code, value) end

local function now_ms()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

-- Append a record to the metadata log, and extend the hash chain.
local function append(kind, payload)
  payload.version = payload.version or 0
  local body = cjson.encode(payload)
  local previous = hash
  offset = offset + 1
  hash = redis.sha1hex(previous .. text(offset) .. kind .. body)
  redis.call('XADD', LOG, text(offset) .. '-0', 'kind', kind, 'payload', body, 'h', hash, 'p', previous,
    't', text(now_ms()))
  redis.call('HSET', CLUSTER, 'mo', text(offset), 'h', hash)
  return offset
end

-- The present incarnation, for a broker of another one, with the caller's part in the restore that began it.
local function incarnation()
  return {incarnation = tonumber(cluster.incarnation), incarnation_id = cluster.incarnation_id,
    parents = cluster.parents or '', lost = tonumber(cluster.lost or 0),
    took_part = cjson.decode(cluster.took_part or '{}')[text(A.node_id)]}
end

-- The errors in states in which another store has the metadata, or a migration moves them. PROJECTION shows those of a quorum.
local FROZEN = {EXPORTED = 'MIGRATING', IMPORTED = 'MIGRATING', MOVED = 'MOVED', PROJECTION = 'MOVED'}

-- Refuse all scripts but those of the migration while this store may not change the metadata. Returns a refusal or nil.
local function check_not_frozen()
  local code = FROZEN[cluster.state]
  return code and refuse(code) or nil
end

local function broker_key(id) return key('b:' .. text(id)) end

-- Read a registered broker as a table; false if there is none.
local function read_broker(id)
  local broker = read_hash(broker_key(id))
  if broker then
    broker.broker_epoch = tonumber(broker.broker_epoch)
    broker.lossy_epoch = tonumber(broker.lossy_epoch)
    broker.lossy = broker.lossy == '1'
    broker.acted_epoch = tonumber(broker.acted_epoch or 0)
    broker.fast_fenced_ms = tonumber(broker.fast_fenced_ms or 0)
    broker.persisted = tonumber(broker.persisted)
    broker.min_isr = tonumber(broker.min_isr or 1)
    broker.port = tonumber(broker.port)
  end
  return broker
end

-- The caller's registration, for the answer to a broker whose history was trimmed.
local function caller()
  local broker = read_broker(A.node_id)
  return broker and {broker_epoch = broker.broker_epoch, boot_id = broker.boot_id,
    acted_epoch = broker.acted_epoch, state = broker.state, host = broker.host, port = broker.port} or nil
end

-- Check that this store has the caller's cluster and history. Returns a refusal or nil.
local function check_history()
  if not cluster then return refuse('NO_CLUSTER') end
  if given(A.cluster_id) and A.cluster_id ~= cluster.cluster_id then
    return refuse('WRONG_CLUSTER', {cluster_id = cluster.cluster_id})
  end
  local frozen = check_not_frozen()
  if frozen then return frozen end
  if cluster.state ~= 'LIVE' then
    -- Whether the store has this broker's image.
    return refuse('SEEDING', {offered = redis.call('HEXISTS', key('offers'), text(A.node_id)) == 1})
  end
  if given(A.incarnation_id) and A.incarnation_id ~= cluster.incarnation_id then
    return refuse('WRONG_INCARNATION', incarnation())
  end
  if offset < KNOWN_OFFSET then return refuse('REGRESSED') end
  if KNOWN_OFFSET == offset then
    if KNOWN_OFFSET > 0 and hash ~= KNOWN_HASH then return refuse('FORKED') end
  elseif KNOWN_OFFSET > 0 then
    local id = ARGV[2] .. '-0'
    local entry = redis.call('XRANGE', LOG, id, id)[1]
    if not entry then
      -- A history that was restored, or trimmed, begins with a snapshot.
      local head = redis.call('HMGET', key('snapshot'), 'offset', 'h')
      if head[1] == ARGV[2] and head[2] == KNOWN_HASH then return nil end
      -- A later trim replaced that snapshot. The store may still have all records after it.
      local after = text(KNOWN_OFFSET + 1) .. '-0'
      local next_entry = redis.call('XRANGE', LOG, after, after)[1]
      local following = next_entry and next_entry[2] or {}
      for i = 1, #following, 2 do
        if following[i] == 'p' and following[i + 1] == KNOWN_HASH then return nil end
      end
      return refuse('TRIMMED', {broker = caller()})
    end
    local fields = entry[2]
    for i = 1, #fields, 2 do
      if fields[i] == 'h' and fields[i + 1] ~= KNOWN_HASH then return refuse('FORKED') end
    end
  end
  return nil
end

local ME

local function check_broker()
  local refused = check_history()
  if refused then return refused end
  ME = read_broker(A.node_id)
  if not ME or ME.broker_epoch ~= A.broker_epoch or ME.state == 'CLOSED' then return refuse('STALE_BROKER_EPOCH') end
  return nil
end

local function check_controller()
  local refused = check_broker()
  if refused then return refused end
  if tonumber(cluster.ctl_id) ~= A.node_id or tonumber(cluster.ctl_epoch) ~= A.controller_epoch then
    return refuse('FENCED_CONTROLLER', {controller_id = tonumber(cluster.ctl_id)})
  end
  return nil
end

local function change_broker(id, broker, state)
  redis.call('HSET', broker_key(id), 'state', state)
  append('BrokerChange', {node_id = id, broker_epoch = broker.broker_epoch, state = state})
end

-- An ACTIVE broker with its registration on disk may acknowledge records. The disk of a later boot must have this registration.
local function note_acted(id, broker)
  local in_use = broker.state == 'ACTIVE' or broker.state == 'STOPPING'
  if in_use and broker.persisted >= broker.broker_epoch and broker.acted_epoch < broker.broker_epoch then
    redis.call('HSET', broker_key(id), 'acted_epoch', text(broker.broker_epoch))
  end
end

-- Whether one more broker may be fenced on suspicion: at most half of them within ten seconds. A fencing in the future was
-- before a backward change of the clock.
local function may_fence_fast(target)
  local registered, lately, now = 0, 0, now_ms()
  for _, node in ipairs(redis.call('SMEMBERS', key('brokers'))) do
    local broker = read_broker(tonumber(node))
    if broker and broker.state ~= 'CLOSED' then
      registered = registered + 1
      local ago_ms = now - broker.fast_fenced_ms
      local fast = broker.fast_fenced_ms > 0 and ago_ms >= 0 and ago_ms < 10000
      if fast and tonumber(node) ~= target then lately = lately + 1 end
    end
  end
  return registered == 1 or (lately + 1) * 2 <= registered
end

local function note_fast_fence(id) redis.call('HSET', broker_key(id), 'fast_fenced_ms', text(now_ms())) end
