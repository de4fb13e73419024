-- Slots for connections of one kind over all web processes, and the queue for them.
-- A slot is a lease in three sorted sets: all, its tenant's, its client's (score: when it lapses, in ms). A place in the queue is a lease
-- in `waiting-leases` and a rank in `waiting` (score: arrival, in us). After each operation whoever still waits is kept back by a limit.
-- KEYS: base of the kind's keys
-- ARGV: operation; limits: all, a tenant, a client, the queue; lease (ms); members, each `tenant|client|process|connection`
-- Operations:
--   take: a slot or a place for one member. {0}: has its slot; {n}: waits at place n; {-1, limit, how many wait for it, slots of that
--     limit that came free lately, in how many ms}: the queue is full
--   watch: the places of one process' waiting members, renewed. For each: 0: has its slot, n: place, -1: unknown
--   renew: the slots of these members, put back if they have lapsed. Returns how many
--   release: the slots and places of these members. Returns how many slots came free
local ALL, WAITING, WAITING_LEASES = KEYS[1] .. ':all', KEYS[1] .. ':waiting', KEYS[1] .. ':waiting-leases'
local RATE_MS, RATE_KEPT = 60000, 64
local operation, limit, tenant_limit, client_limit = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local queue_limit, lease = tonumber(ARGV[5]), tonumber(ARGV[6])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local counts, lapsed = {}, false

local function sets_of(member)
  local tenant, client, process = string.match(member, '^([^|]*)|([^|]*)|([^|]*)|')
  return KEYS[1] .. ':tenant:' .. tenant, KEYS[1] .. ':client:' .. tenant .. ':' .. client, process
end

local function used(set)
  if not counts[set] then
    lapsed = redis.call('ZREMRANGEBYSCORE', set, '-inf', now) > 0 or lapsed
    counts[set] = redis.call('ZCARD', set)
  end
  return counts[set]
end

local function own_limit(tenant, client)
  if used(client) >= client_limit then return client end
  if used(tenant) >= tenant_limit then return tenant end
  return nil
end

local function grant(member, tenant, client)
  for _, set in ipairs({ALL, tenant, client}) do
    local before = used(set)
    counts[set] = before + redis.call('ZADD', set, now + lease, member)
    redis.call('PEXPIRE', set, lease)
  end
end

local function unqueue(member)
  redis.call('ZREM', WAITING, member)
  redis.call('ZREM', WAITING_LEASES, member)
end

local function bell(process) return KEYS[1] .. ':bell:' .. process end

-- First come first served among those whose own limits have room.
local function advance()
  for _, member in ipairs(redis.call('ZRANGE', WAITING, 0, -1)) do
    if used(ALL) >= limit then return end
    local tenant, client, process = sets_of(member)
    if not own_limit(tenant, client) then
      grant(member, tenant, client)
      unqueue(member)
      redis.call('RPUSH', bell(process), member)
      redis.call('PEXPIRE', bell(process), lease)
    end
  end
end

local function lapse_waiting()
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', WAITING_LEASES, '-inf', now)) do unqueue(member) end
end

-- Place of each that waits, among those that wait for the same limit; how many wait for each limit.
local function places()
  local found, ahead = {}, {}
  for _, member in ipairs(redis.call('ZRANGE', WAITING, 0, -1)) do
    local tenant, client = sets_of(member)
    local own = own_limit(tenant, client)
    ahead[tenant], ahead[client] = (ahead[tenant] or 0) + 1, (ahead[client] or 0) + 1
    if not own then ahead[ALL] = (ahead[ALL] or 0) + 1 end
    found[member] = ahead[own or ALL]
  end
  return found, ahead
end

local function note_free(set)
  redis.call('LPUSH', set .. ':freed', now)
  redis.call('LTRIM', set .. ':freed', 0, RATE_KEPT - 1)
  redis.call('PEXPIRE', set .. ':freed', RATE_MS)
end

local function freed_lately(set)
  local count, oldest = 0, now
  for _, at in ipairs(redis.call('LRANGE', set .. ':freed', 0, -1)) do
    if tonumber(at) > now - RATE_MS then count, oldest = count + 1, tonumber(at) end
  end
  return count, now - oldest
end

local function take(member)
  local tenant, client = sets_of(member)
  used(ALL) used(tenant) used(client)
  if lapsed then advance() end
  local kept_by = own_limit(tenant, client) or (used(ALL) >= limit and ALL)
  if not kept_by then
    grant(member, tenant, client)
    return {0}
  end
  lapse_waiting()
  local _, ahead = places()
  -- One tenant leaves half of the queue to the others.
  if redis.call('ZCARD', WAITING) >= queue_limit or (ahead[tenant] or 0) >= math.ceil(queue_limit / 2) then
    local rate_of = kept_by == ALL and ALL or tenant
    local count, span = freed_lately(rate_of)
    local name = kept_by == ALL and 'all' or kept_by == tenant and 'tenant' or 'client'
    return {-1, name, ahead[rate_of] or 0, count, span}
  end
  redis.call('ZADD', WAITING, time[1] * 1000000 + time[2], member)
  redis.call('ZADD', WAITING_LEASES, now + lease, member)
  return {(ahead[kept_by] or 0) + 1}
end

local function watch(members)
  local _, _, process = sets_of(members[1])
  redis.call('DEL', bell(process))
  for _, member in ipairs(members) do redis.call('ZADD', WAITING_LEASES, 'XX', now + lease, member) end
  lapse_waiting()
  advance()
  local found, replies = places(), {}
  for i, member in ipairs(members) do
    replies[i] = found[member] or (redis.call('ZSCORE', ALL, member) and 0) or -1
  end
  return replies
end

local function renew(members)
  for _, member in ipairs(members) do grant(member, sets_of(member)) end
  return #members
end

local function release(members)
  local freed, matters = 0, false
  for _, member in ipairs(members) do
    local tenant, client = sets_of(member)
    local kept = used(ALL) >= limit or own_limit(tenant, client)
    unqueue(member)
    if redis.call('ZREM', ALL, member) == 1 then
      freed, matters = freed + 1, matters or kept
      note_free(ALL)
      note_free(tenant)
    end
    redis.call('ZREM', tenant, member)
    redis.call('ZREM', client, member)
    counts[ALL], counts[tenant], counts[client] = nil, nil, nil
  end
  -- With room in each of its limits before, nobody waited for what came free.
  if matters or lapsed then advance() end
  return freed
end

local members = {}
for i = 7, #ARGV do members[i - 6] = ARGV[i] end
if operation == 'take' then return take(members[1]) end
if operation == 'watch' then return watch(members) end
if operation == 'renew' then return renew(members) end
return release(members)
