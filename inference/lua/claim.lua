-- Give the request whose turn it is to a replica: lease, running set, the log's Started entry and the charge for its prompt in one
-- step. One that was taken before has paid for its prompt; what it made since its last charge is charged now.
-- If another replica has served more of its prompt, and could take it at once, that one is told and the request is left for it for a
-- moment. Nothing behind it is given out meanwhile, so that who comes next stays who comes next.
-- KEYS: queue, queue_tenants, queue_sizes, share, queue_bell, running
-- ARGV: key prefix, cost of a prompt token, cost of an output token, floor of lower classes, now (us; '' for the server's clock),
--   incarnation, started entry, the only id to take ('' for any), ttl of what is charged (s), how many the replica can take ('' if it
--   takes whatever comes), how long a request is left for another (us), how many more that one may run, most marks kept, lowest class
--   to take, classes to take with commas around each, those of them that are kept from the tenants in the last argument, and these
-- Returns {request, 'hit', 'elsewhere', 'miss' or 'short'}: it has served most of the prompt, another has, nobody has any of it, or it is
-- too short to tell; {false, us} while the request is left; false when none of these classes waits or it is the turn of another class or id.
-- uses: fair_share, upcoming, prefixes
local prefix, share, floor, now = ARGV[1], KEYS[4], tonumber(ARGV[4]), moment(ARGV[5])
local incarnation, room, most = ARGV[6], tonumber(ARGV[10]), tonumber(ARGV[11])
if room then note_room(share, incarnation, room) end
local up, request = upcoming(KEYS[1], KEYS[2], KEYS[3], share, prefix, tonumber(ARGV[2]), ARGV[14])
if not up or (ARGV[8] ~= '' and ARGV[8] ~= up.id) then return false end
if not string.find(ARGV[15], ',' .. up.class .. ',', 1, true) then return false end
if string.find(ARGV[16], ',' .. up.class .. ',', 1, true) and is_kept_from(share, up.class, up.tenant, ARGV[17], now) then return false end

local marks = marks_of(share, up.id)
local best, mine, known = preferred(prefix, share, incarnation, marks, tonumber(ARGV[12]))
if room and best and most > 0 then
  local us = still_left(share, up.id, best, now, most)
  if us then
    ring(prefix .. ':host-bell:' .. best, 1)
    return {false, us}
  end
end
local was_left = redis.call('HEXISTS', share .. ':left', up.id) == 1
take_out(KEYS[1], KEYS[2], KEYS[3], share, up.class, up.tenant, up.id)
remember(prefix, incarnation, marks, now, tonumber(ARGV[13]))
if room then note_room(share, incarnation, room - 1) end
-- Whoever left it has stopped looking.
if was_left and redis.call('EXISTS', KEYS[1]) == 1 then ring(KEYS[5], BELL_MOST) end

local fields = cmsgpack.unpack(request)
local progress = fields['progress']
local seq = type(progress) == 'table' and #progress['token_ids'] or 0
local charged = prefix .. ':charged:' .. up.id
local before = redis.call('GET', charged)
local service = 0
if before then
  service = math.max(0, seq - tonumber(before)) * tonumber(ARGV[3])
elseif type(progress) ~= 'table' then
  service = up.prompt * tonumber(ARGV[2])
end
charge(share, up.class, up.tenant, up.weight, service, floor, now)
redis.call('SET', charged, math.max(seq, tonumber(before or '0')), 'EX', ARGV[9])

redis.call('DEL', prefix .. ':request:' .. up.id)
redis.call('SET', prefix .. ':lease:' .. up.id, incarnation .. '/' .. (fields['turn'] or 0))
redis.call('HSET', KEYS[6], up.id, request)
redis.call('XADD', prefix .. ':log:' .. up.tenant .. ':' .. up.id, seq .. '-*', 'e', ARGV[7])
return {request, #marks == 0 and 'short' or known > mine and 'elsewhere' or mine > 0 and 'hit' or 'miss'}
