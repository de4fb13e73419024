-- Append an entry to a log, if the writer still holds the lease. An entry that ends the writer's part gives the lease up, so that
-- it can't append anything behind it. Sent twice (the reply to the first was lost), a batch changes nothing and answers the same.
-- KEYS: lease, log
-- ARGV: incarnation, entry id, entry, most entries kept, ttl (s) of the log from here, what the lease says from here if this entry
--   ends the writer's part: closed or suspended; else ''
-- Returns 1, or 0 when the lease is another's.
local holder = redis.call('GET', KEYS[1])
local last = ARGV[6] ~= ''
if holder == 'closed:' .. ARGV[1] or holder == 'suspended:' .. ARGV[1] then return 1 end
if holder ~= ARGV[1] then return 0 end
local added = redis.pcall('XADD', KEYS[2], 'MAXLEN', '~', ARGV[4], ARGV[2], 'e', ARGV[3])
if type(added) == 'table' and added.err and (last or not string.find(added.err, 'equal or smaller')) then
  return added
end
redis.call('EXPIRE', KEYS[2], ARGV[5])
if last then
  redis.call('SET', KEYS[1], ARGV[6] .. ':' .. ARGV[1], 'EX', ARGV[5])
end
return 1
