-- Charge tenants for the tokens that a replica's generations have made. Sent twice, it charges once.
-- KEYS: share
-- ARGV: key prefix, cost of an output token, floor of lower classes, now (us; '' for the server's clock), ttl of what is charged (s);
--   then for each generation: id, class, tenant, weight, tokens that its replica knows to be charged, tokens made
-- Returns the service charged, in tokens by their cost, as text.
-- uses: fair_share
local prefix, cost, floor, now = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), moment(ARGV[4])
local order, of, total = {}, {}, 0
for at = 6, #ARGV, 6 do
  local charged = prefix .. ':charged:' .. ARGV[at]
  local before = tonumber(redis.call('GET', charged) or ARGV[at + 4])
  local service = (tonumber(ARGV[at + 5]) - before) * cost
  if service > 0 then
    redis.call('SET', charged, ARGV[at + 5], 'EX', ARGV[5])
    local who = ARGV[at + 1] .. ' ' .. ARGV[at + 2] .. ' ' .. ARGV[at + 3]
    if not of[who] then
      of[who] = {class = ARGV[at + 1], tenant = ARGV[at + 2], weight = tonumber(ARGV[at + 3]), service = 0}
      order[#order + 1] = who
    end
    of[who].service = of[who].service + service
    total = total + service
  end
end
for _, who in ipairs(order) do
  local one = of[who]
  charge(KEYS[1], one.class, one.tenant, one.weight, one.service, floor, now)
end
return tostring(total)
