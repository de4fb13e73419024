-- Put a generation back into its queue, where its first admission puts it; though not so far back in time that it would be overdue as
-- soon as it waits again. It is suspended, or its replica is lost: then its lease is taken away, its readers are told and it leaves what
-- that replica runs in the same step.
-- KEYS: lease, queue, queue_tenants, queue_bell, request, log; of a lost replica also its record and what it runs
-- ARGV: generation id, tenant id, request, admitted at (us), ttl (s), most time that it counts as having waited (us), its last turn;
--   of a lost replica also: what the lease says, id of the log's last entry when it was read, the entry to append, that one's id
-- Returns 1, or 0 when it isn't suspended in that turn (any more); or when the replica lives, has appended, or has it no longer.
local function is_lost(holder)
  if holder ~= ARGV[8] or redis.call('EXISTS', KEYS[7]) == 1 then return false end
  local last = redis.call('XREVRANGE', KEYS[6], '+', '-', 'COUNT', 1)[1]
  return last and last[1] == ARGV[9]
end

local holder = redis.call('GET', KEYS[1])
if not holder then return 0 end
if KEYS[7] then
  if not is_lost(holder) then return 0 end
  redis.call('XADD', KEYS[6], ARGV[11], 'e', ARGV[10])
  redis.call('HDEL', KEYS[8], ARGV[1])
elseif string.match(holder, '^suspended:.*/(%d+)$') ~= ARGV[7] then
  return 0
end
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
