-- Take a generation out of what a replica runs, unless that is a later turn of it.
-- KEYS: running
-- ARGV: generation id, turn
-- Returns 1, or 0 when it was not there in that turn.
local request = redis.call('HGET', KEYS[1], ARGV[1])
if not request or (cmsgpack.unpack(request)['turn'] or 0) ~= tonumber(ARGV[2]) then return 0 end
return redis.call('HDEL', KEYS[1], ARGV[1])
