-- The priority class of the request that a claim would give.
-- KEYS: queue, queue_tenants, queue_sizes, share
-- ARGV: key prefix, cost of a prompt token, lowest class to look at
-- Returns the class, or false when none waits.
-- uses: fair_share, upcoming
local up = upcoming(KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[1], tonumber(ARGV[2]), ARGV[3])
return up and up.class or false
