-- Put a request into its release's queue, if there is room, and open its log. Put there twice, it waits once.
-- KEYS: queue, queue_tenants, queue_bell, queue_sizes, share, request, log
-- ARGV: generation id, tenant id, class, now (us; '' for the server's clock), request, its size, opening entry, limit,
--   limit per tenant, ttl (s), its prompt's marks
-- Returns {1, how many wait, this one included}, or {0, which limit refused}.
-- uses: fair_share, prefixes
local queue, tenants, id, tenant = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
local waiting = redis.call('ZCARD', queue)
if redis.call('ZSCORE', queue, id) then return {1, waiting} end
if waiting >= tonumber(ARGV[8]) then return {0, 'queue'} end
if tonumber(redis.call('HGET', tenants, tenant) or '0') >= tonumber(ARGV[9]) then return {0, 'tenant'} end
local now = moment(ARGV[4])
redis.call('SET', KEYS[6], ARGV[5], 'EX', ARGV[10])
redis.call('XADD', KEYS[7], '0-*', 'e', ARGV[7])
redis.call('EXPIRE', KEYS[7], ARGV[10])
redis.call('HINCRBY', tenants, tenant, 1)
redis.call('HSET', KEYS[4], id, ARGV[6])
note_marks(KEYS[5], id, ARGV[11])
join(queue, KEYS[5], ARGV[3], tenant, id, now, now)
local prompt, _, weight = size_of(KEYS[4], id)
note_arrival(KEYS[5], ARGV[3], tenant, prompt, weight, now)
ring(KEYS[3], BELL_MOST)
return {1, waiting + 1}
