-- Take a lost replica out, unless it is heard of again or something that it had taken is not settled yet.
-- KEYS: replica record, running, replicas, then what goes with it
-- ARGV: incarnation
-- Returns 1, or 0 when it stays.
if redis.call('EXISTS', KEYS[1], KEYS[2]) > 0 then return 0 end
redis.call('DEL', unpack(KEYS, 4))
redis.call('SREM', KEYS[3], ARGV[1])
return 1
