-- Put a suspended generation back into its queue, where its first admission puts it; though not so far back in time that it
-- would be overdue as soon as it waits again.
-- KEYS: lease, queue, queue_tenants, queue_bell, request, log
-- ARGV: generation id, tenant id, request, admitted at (us), ttl (s), most time that it counts as having waited (us)
-- Returns 1, or 0 when it isn't suspended (any more).
local holder = redis.call('GET', KEYS[1])
if not holder or string.sub(holder, 1, 10) ~= 'suspended:' then return 0 end
redis.call('DEL', KEYS[1])
redis.call('SET', KEYS[5], ARGV[3], 'EX', ARGV[5])
redis.call('EXPIRE', KEYS[6], ARGV[5])
redis.call('HINCRBY', KEYS[3], ARGV[2], 1)
local time = redis.call('TIME')
local earliest = time[1] * 1000000 + time[2] - ARGV[6]
redis.call('ZADD', KEYS[2], math.max(earliest, tonumber(ARGV[4])), ARGV[1])
redis.call('LPUSH', KEYS[4], '1')
redis.call('LTRIM', KEYS[4], 0, 63)
return 1
