-- Put a generation back into its queue, where its first admission puts it; though not so far back in time that it would be overdue as
-- soon as it waits again. It is suspended, or its replica is lost: then its lease is taken away, its readers are told and it leaves what
-- that replica runs in the same step. One that was interrupted goes before all of its class that have not begun; one that was left by
-- its reader takes its place in its tenant's line. Neither pays for its prompt again.
-- KEYS: queue, queue_tenants, queue_bell, queue_sizes, share, request, log, lease; of a lost replica also its record and what it runs
-- ARGV: generation id, tenant id, class, now (us; '' for the server's clock), request, its size, admitted at (us), ttl (s), most
--   time that it counts as having waited (us), 1 if it was interrupted, its last turn, its marks; of a lost replica also: what the lease
--   says, id of the log's last entry when it was read, the entry to append, that one's id
-- Returns 1, or 0 when it isn't suspended in that turn (any more); or when the replica lives, has appended, or has it no longer.
-- uses: fair_share, prefixes
local function is_lost(holder)
  if holder ~= ARGV[13] or redis.call('EXISTS', KEYS[9]) == 1 then return false end
  local last = redis.call('XREVRANGE', KEYS[7], '+', '-', 'COUNT', 1)[1]
  return last and last[1] == ARGV[14]
end

local holder = redis.call('GET', KEYS[8])
if not holder then return 0 end
if KEYS[9] then
  if not is_lost(holder) then return 0 end
  redis.call('XADD', KEYS[7], ARGV[16], 'e', ARGV[15])
  redis.call('HDEL', KEYS[10], ARGV[1])
elseif string.match(holder, '^suspended:.*/(%d+)$') ~= ARGV[11] then
  return 0
end
local now = moment(ARGV[4])
-- By a web process's clock, which may be ahead: nobody comes later than now.
local arrival = math.min(now, math.max(now - tonumber(ARGV[9]), tonumber(ARGV[7])))
redis.call('DEL', KEYS[8])
redis.call('SET', KEYS[6], ARGV[5], 'EX', ARGV[8])
redis.call('EXPIRE', KEYS[7], ARGV[8])
redis.call('HINCRBY', KEYS[2], ARGV[2], 1)
redis.call('HSET', KEYS[4], ARGV[1], ARGV[6])
note_marks(KEYS[5], ARGV[1], ARGV[12])
join(KEYS[1], KEYS[5], ARGV[3], ARGV[2], ARGV[1], arrival, now, ARGV[10] == '1')
ring(KEYS[3], BELL_MOST)
return 1
