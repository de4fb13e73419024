-- Note what a replica has served, so that what begins alike is left for it.
-- KEYS: prefixes
-- ARGV: key prefix, incarnation, now (us; '' for the server's clock), most marks kept; then for each prompt its marks
-- Returns how many marks it has.
-- uses: fair_share, prefixes
local now = moment(ARGV[3])
for at = 5, #ARGV do remember(ARGV[1], ARGV[2], unpacked(ARGV[at]), now, tonumber(ARGV[4])) end
return redis.call('ZCARD', KEYS[1])
