-- Take a waiting request out of the queue and close its log.
-- KEYS: queue, queue_tenants, queue_bell, request, log
-- ARGV: generation id, tenant id, last entry, ttl (s), last entry's id
-- Returns 1, or 0 when it doesn't wait (any more).
if redis.call('ZREM', KEYS[1], ARGV[1]) == 0 then return 0 end
if redis.call('HINCRBY', KEYS[2], ARGV[2], -1) <= 0 then redis.call('HDEL', KEYS[2], ARGV[2]) end
redis.call('DEL', KEYS[4])
redis.call('XADD', KEYS[5], ARGV[5], 'e', ARGV[3])
redis.call('EXPIRE', KEYS[5], ARGV[4])
return 1
