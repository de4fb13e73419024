-- Append entries to logs, each if the writer still holds that log's lease. An entry that ends the writer's part gives the lease up, so
-- that it can't append anything behind it. Sent twice (the reply to the first was lost), a batch changes nothing and answers the same.
-- KEYS: for each entry its lease and its log
-- ARGV: incarnation, most entries kept; then for each entry: the writer's turn, the entry's id, the entry, ttl (s) of the log from here,
--   what the lease says from here if the entry ends the writer's part (closed or suspended), else ''
-- Returns for each entry 1, or 0 when the lease is another's.
local incarnation, kept = ARGV[1], ARGV[2]

local function append(lease, log, turn, id, entry, ttl, says)
  local holder, writer = redis.call('GET', lease), incarnation .. '/' .. turn
  if holder == 'closed:' .. writer or holder == 'suspended:' .. writer then return 1 end
  if holder ~= writer then return 0 end
  local added = redis.pcall('XADD', log, 'MAXLEN', '~', kept, id, 'e', entry)
  if type(added) == 'table' and added.err and (says ~= '' or not string.find(added.err, 'equal or smaller')) then
    error(added.err)
  end
  redis.call('EXPIRE', log, ttl)
  if says ~= '' then redis.call('SET', lease, says .. ':' .. writer, 'EX', ttl) end
  return 1
end

local answers = {}
for n = 1, #KEYS / 2 do
  local at = 5 * n - 2
  answers[n] = append(KEYS[2 * n - 1], KEYS[2 * n], ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4])
end
return answers
