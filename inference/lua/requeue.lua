-- Put a suspended generation back into its queue, where its first admission puts it; though not so far back in time that it would
-- be overdue as soon as it waits again. One that was interrupted goes before all of its class that have not begun; one that was
-- left by its reader takes its place in its tenant's line. Neither pays for its prompt again.
-- KEYS: queue, queue_tenants, queue_bell, queue_sizes, share, request, log, lease
-- ARGV: generation id, tenant id, class, now (us; '' for the server's clock), request, its size, admitted at (us), ttl (s), most
--   time that it counts as having waited (us), 1 if it was interrupted
-- Returns 1, or 0 when it isn't suspended (any more).
-- uses: fair_share
local holder = redis.call('GET', KEYS[8])
if not holder or string.sub(holder, 1, 10) ~= 'suspended:' then return 0 end
local now = moment(ARGV[4])
local arrival = math.max(now - tonumber(ARGV[9]), tonumber(ARGV[7]))
redis.call('DEL', KEYS[8])
redis.call('SET', KEYS[6], ARGV[5], 'EX', ARGV[8])
redis.call('EXPIRE', KEYS[7], ARGV[8])
redis.call('HINCRBY', KEYS[2], ARGV[2], 1)
redis.call('HSET', KEYS[4], ARGV[1], ARGV[6])
join(KEYS[1], KEYS[5], ARGV[3], ARGV[2], ARGV[1], arrival, now, ARGV[10] == '1')
redis.call('LPUSH', KEYS[3], '1')
redis.call('LTRIM', KEYS[3], 0, 63)
return 1
