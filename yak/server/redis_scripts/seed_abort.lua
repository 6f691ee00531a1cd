-- Delete the offers, as if none had been made. Brokers whose history is missing offer again.
local refused = check_seeding()
if refused then return refused end
redis.call('UNLINK', OFFERS)
local before = cluster.before_restore or ''
if before == '' then
  redis.call('DEL', CLUSTER)
else
  redis.call('HSET', CLUSTER, 'state', before)
  redis.call('HDEL', CLUSTER, 'before_restore')
end
return answer('OK')
