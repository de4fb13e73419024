-- Put a request into its release's queue, if there is room, and open its log.
-- KEYS: queue, queue_tenants, queue_bell, request, log
-- ARGV: generation id, tenant id, request, opening entry, limit, limit per tenant, ttl (s)
-- Returns {1, place in the queue from 1}, or {0, which limit refused}.
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[5]) then return {0, 'queue'} end
local mine = tonumber(redis.call('HGET', KEYS[2], ARGV[2]) or '0')
if mine >= tonumber(ARGV[6]) then return {0, 'tenant'} end
local time = redis.call('TIME')
redis.call('SET', KEYS[4], ARGV[3], 'EX', ARGV[7])
redis.call('XADD', KEYS[5], '0-*', 'e', ARGV[4])
redis.call('EXPIRE', KEYS[5], ARGV[7])
redis.call('HINCRBY', KEYS[2], ARGV[2], 1)
redis.call('ZADD', KEYS[1], time[1] * 1000000 + time[2], ARGV[1])
redis.call('LPUSH', KEYS[3], '1')
redis.call('LTRIM', KEYS[3], 0, 63)
return {1, redis.call('ZRANK', KEYS[1], ARGV[1]) + 1}
