-- Give the request whose turn it is to a replica: lease, running set, the log's Started entry and the charge for its prompt in one
-- step. One that was taken before has paid for its prompt; what it made since its last charge is charged now.
-- KEYS: queue, queue_tenants, queue_sizes, share, running
-- ARGV: key prefix, cost of a prompt token, cost of an output token, floor of lower classes, now (us; '' for the server's clock),
--   incarnation, started entry, the only id to take ('' for any), ttl of what is charged (s), classes to take, with commas around each
-- Returns the request, or false when none waits or another's turn has come, or one's of another class.
-- uses: fair_share, upcoming
local prefix, share, floor, now = ARGV[1], KEYS[4], tonumber(ARGV[4]), moment(ARGV[5])
local up, request = upcoming(KEYS[1], KEYS[2], KEYS[3], share, prefix, tonumber(ARGV[2]))
if not up or (ARGV[8] ~= '' and ARGV[8] ~= up.id) then return false end
if not string.find(ARGV[10], ',' .. up.class .. ',', 1, true) then return false end
take_out(KEYS[1], KEYS[2], KEYS[3], share, up.class, up.tenant, up.id)

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
redis.call('SET', prefix .. ':lease:' .. up.id, ARGV[6] .. '/' .. (fields['turn'] or 0))
redis.call('HSET', KEYS[5], up.id, request)
redis.call('XADD', prefix .. ':log:' .. up.tenant .. ':' .. up.id, seq .. '-*', 'e', ARGV[7])
return request
