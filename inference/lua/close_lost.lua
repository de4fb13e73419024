-- Close the log of a generation whose replica is lost. The lease goes first, so that a replica that comes back can't append.
-- KEYS: lease, log, replica record
-- ARGV: what the lease says, last entry's id, last entry, ttl (s)
-- Returns 1, or 0 when the replica lives, has appended meanwhile, or the generation is no longer its.
if redis.call('EXISTS', KEYS[3]) == 1 then return 0 end
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
local added = redis.pcall('XADD', KEYS[2], ARGV[2], 'e', ARGV[3])
if type(added) == 'table' and added.err then
  if string.find(added.err, 'equal or smaller') then return 0 end
  return added
end
redis.call('EXPIRE', KEYS[2], ARGV[4])
redis.call('SET', KEYS[1], 'closed:lost', 'EX', ARGV[4])
return 1
