-- The request that a claim would give, left where it is.
-- KEYS: queue, queue_tenants, queue_sizes, share
-- ARGV: key prefix, cost of a prompt token, lowest class to look at
-- Returns the request, or false when none waits.
-- uses: fair_share, upcoming
local _, request = upcoming(KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[1], tonumber(ARGV[2]), ARGV[3])
return request
