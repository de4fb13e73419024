-- Take a waiting request out of the queue and close its log.
-- KEYS: queue, queue_tenants, queue_bell, queue_sizes, share, request, log
-- ARGV: generation id, tenant id, class, last entry, ttl (s), last entry's id
-- Returns 1, or 0 when it doesn't wait (any more).
-- uses: fair_share, upcoming
if not take_out(KEYS[1], KEYS[2], KEYS[4], KEYS[5], ARGV[3], ARGV[2], ARGV[1]) then return 0 end
redis.call('DEL', KEYS[6])
redis.call('XADD', KEYS[7], ARGV[6], 'e', ARGV[4])
redis.call('EXPIRE', KEYS[7], ARGV[5])
return 1
