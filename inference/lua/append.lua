-- Append an entry to a log, if the writer still holds the lease. The last entry closes the lease, so that nothing follows it.
-- Sent twice (the reply to the first was lost), it changes nothing and answers the same.
-- KEYS: lease, log
-- ARGV: incarnation, entry id, entry, most entries kept, ttl (s) if this is the last entry, else ''
-- Returns 1, or 0 when the lease is another's.
local holder = redis.call('GET', KEYS[1])
local last = ARGV[5] ~= ''
-- The writer itself has closed the log: its whole batch has come again.
if holder == 'closed:' .. ARGV[1] then return 1 end
if holder ~= ARGV[1] then return 0 end
local added = redis.pcall('XADD', KEYS[2], 'MAXLEN', '~', ARGV[4], ARGV[2], 'e', ARGV[3])
if type(added) == 'table' and added.err and (last or not string.find(added.err, 'equal or smaller')) then
  return added
end
if last then
  redis.call('EXPIRE', KEYS[2], ARGV[5])
  redis.call('SET', KEYS[1], 'closed:' .. ARGV[1], 'EX', ARGV[5])
end
return 1
