-- Close the log of a suspended generation for good. Closed by this before (what came behind it failed), it is closed.
-- KEYS: lease, log
-- ARGV: last entry's id, last entry, ttl (s), its last turn
-- Returns 1, or 0 when it isn't suspended in that turn (any more).
local holder = redis.call('GET', KEYS[1])
if holder == 'closed:suspended' then return 1 end
if not holder or string.match(holder, '^suspended:.*/(%d+)$') ~= ARGV[4] then return 0 end
redis.call('XADD', KEYS[2], ARGV[1], 'e', ARGV[2])
redis.call('EXPIRE', KEYS[2], ARGV[3])
redis.call('SET', KEYS[1], 'closed:suspended', 'EX', ARGV[3])
return 1
