-- Who comes next in a release's queue: priority class, then fair share between tenants, then arrival. Prepended to the scripts that
-- say they use it. Virtual token counters after Sheng et al., "Fairness in Serving Large Language Models", OSDI 2024, one set a class.
--
-- `share` is the name of a hash (last:CLASS: the tenant that left its line last; owed:CLASS: service owed by the classes above;
-- busy_since: when something began to wait, us) and, with :CLASS behind it, what the names of that class's keys begin with:
--   :counters  sorted set, tenant by service over weight         :waiting  those of them that wait, by the same
--   :arrivals  hash, tenant to how much it asks for lately
--   :seen      sorted set, tenant by when it was last heard of   :line:TENANT  sorted set, ids by arrival (us)
--   :restored  sorted set, ids that go on, by arrival: they paid when they were first taken, so they go before new ones
local CLASSES = {'interactive', 'standard', 'batch'}
local IDLE_US = 600 * 1000000
local IDLE_AT_ONCE = 16
local KEPT_S = 86400
local BELL_MOST = 64

-- An injected moment, or the server's own clock.
local function moment(given)
  if given ~= '' then return tonumber(given) end
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

-- Wake whoever waits for this bell, so often at most.
local function ring(bell, most)
  redis.call('LPUSH', bell, '1')
  redis.call('LTRIM', bell, 0, most - 1)
end

local function key(share, class, what) return share .. ':' .. class .. ':' .. what end

local function waits(share, class)
  return redis.call('EXISTS', key(share, class, 'waiting'), key(share, class, 'restored')) > 0
end

-- The least counter of those who wait, else of the tenant that left last; nil when nobody is known.
local function level(share, class)
  local least = redis.call('ZRANGE', key(share, class, 'waiting'), 0, 0, 'WITHSCORES')
  if least[2] then return tonumber(least[2]) end
  local last = redis.call('HGET', share, 'last:' .. class)
  return last and tonumber(redis.call('ZSCORE', key(share, class, 'counters'), last) or nil)
end

-- A counter at or below the level is worth nothing: its tenant's next arrival would lift it there.
local function forget_idle(share, class, at, now)
  local seen, counters = key(share, class, 'seen'), key(share, class, 'counters')
  local last = redis.call('HGET', share, 'last:' .. class)
  for _, tenant in ipairs(redis.call('ZRANGEBYSCORE', seen, '-inf', now - IDLE_US, 'LIMIT', 0, IDLE_AT_ONCE)) do
    local counter = tonumber(redis.call('ZSCORE', counters, tenant) or '0')
    if counter > at or tenant == last or redis.call('ZSCORE', key(share, class, 'waiting'), tenant) then
      redis.call('ZADD', seen, now, tenant)
    else
      redis.call('ZREM', counters, tenant)
      redis.call('ZREM', seen, tenant)
      redis.call('HDEL', key(share, class, 'arrivals'), tenant)
    end
  end
end

local function note_seen(share, class, tenant, now)
  redis.call('ZADD', key(share, class, 'seen'), now, tenant)
  redis.call('EXPIRE', key(share, class, 'seen'), KEPT_S)
  redis.call('EXPIRE', key(share, class, 'counters'), KEPT_S)
  redis.call('EXPIRE', share, KEPT_S)
end

-- From empty to waiting: whoever was idle is lifted to the level, or it would have saved up what it didn't use.
local function lift(share, class, tenant, now)
  local counter = tonumber(redis.call('ZSCORE', key(share, class, 'counters'), tenant) or '0')
  local at = level(share, class)
  if at and at > counter then counter = at end
  redis.call('ZADD', key(share, class, 'counters'), counter, tenant)
  redis.call('ZADD', key(share, class, 'waiting'), counter, tenant)
  note_seen(share, class, tenant, now)
  forget_idle(share, class, level(share, class), now)
end

-- How often a tenant asks, and how much: sums that fade within a minute. Only forecasts look at them.
local FADE_US = 60 * 1000000
local function note_arrival(share, class, tenant, prompt, weight, now)
  local arrivals = key(share, class, 'arrivals')
  local known = redis.call('HGET', arrivals, tenant) or '0 0 0 0'
  local count, tokens, _, at = string.match(known, '^(%S+) (%S+) (%S+) (%S+)$')
  local left = math.exp(-math.max(0, now - tonumber(at)) / FADE_US)
  local text = string.format('%.4f %.1f %s %.0f', count * left + 1, tokens * left + prompt, weight, now)
  redis.call('HSET', arrivals, tenant, text)
  redis.call('EXPIRE', arrivals, KEPT_S)
end

-- Into its line, or before all lines if it goes on. `queue` holds everything that waits, by arrival.
local function join(queue, share, class, tenant, id, arrival, now, goes_on)
  if redis.call('EXISTS', queue) == 0 then redis.call('HSET', share, 'busy_since', now) end
  if not waits(share, class) then redis.call('HDEL', share, 'owed:' .. class) end
  redis.call('ZADD', queue, arrival, id)
  if goes_on then
    redis.call('ZADD', key(share, class, 'restored'), arrival, id)
    return
  end
  local line = key(share, class, 'line:' .. tenant)
  if redis.call('EXISTS', line) == 0 then lift(share, class, tenant, now) end
  redis.call('ZADD', line, arrival, id)
end

-- Out of wherever it waits. Returns false when it doesn't wait.
local function leave(queue, share, class, tenant, id)
  local waited = redis.call('ZREM', queue, id) == 1
  redis.call('ZREM', key(share, class, 'restored'), id)
  local line = key(share, class, 'line:' .. tenant)
  if redis.call('ZREM', line, id) == 1 and redis.call('EXISTS', line) == 0 then
    redis.call('ZREM', key(share, class, 'waiting'), tenant)
    redis.call('HSET', share, 'last:' .. class, tenant)
  end
  return waited
end

-- What a class has had counts towards what it is owed, and `floor` of it is owed to each lower class that waits.
local function owe(share, class, service, floor)
  local below = false
  for _, each in ipairs(CLASSES) do
    if each == class then
      below = true
      local owed = tonumber(redis.call('HGET', share, 'owed:' .. class) or '0')
      if owed > 0 then redis.call('HSET', share, 'owed:' .. class, math.max(0, owed - service)) end
    elseif below and floor > 0 and waits(share, each) then
      redis.call('HINCRBYFLOAT', share, 'owed:' .. each, string.format('%.6f', floor * service))
    end
  end
end

-- How much service there was in each of the last seconds; what lies further off, either way, is forgotten.
local RATE_S = 60
local function note_service(share, service, now)
  local buckets, second = share .. ':service', math.floor(now / 1000000)
  if redis.call('HEXISTS', buckets, second) == 0 then
    for _, other in ipairs(redis.call('HKEYS', buckets)) do
      if math.abs(tonumber(other) - second) > RATE_S then redis.call('HDEL', buckets, other) end
    end
    redis.call('EXPIRE', buckets, KEPT_S)
  end
  redis.call('HINCRBYFLOAT', buckets, second, string.format('%.6f', service))
end

-- What each tenant had in each of the last spans, for operators to look at beside what it may have.
local SPAN_US, SPANS_KEPT_S = 30 * 1000000, 360
local function note_share(share, class, tenant, service, now)
  local span = share .. ':served:' .. math.floor(now / SPAN_US)
  redis.call('HINCRBYFLOAT', span, class .. ' ' .. tenant, string.format('%.6f', service))
  redis.call('EXPIRE', span, SPANS_KEPT_S)
end

-- Service: tokens by their cost. A tenant that was forgotten goes on from where those are who wait.
local function charge(share, class, tenant, weight, service, floor, now)
  if service <= 0 then return end
  local counters, start = key(share, class, 'counters'), 0
  if not redis.call('ZSCORE', counters, tenant) then start = level(share, class) or 0 end
  local counter = redis.call('ZINCRBY', counters, start + service / weight, tenant)
  redis.call('ZADD', key(share, class, 'waiting'), 'XX', counter, tenant)
  note_seen(share, class, tenant, now)
  owe(share, class, service, floor)
  note_service(share, service, now)
  note_share(share, class, tenant, service, now)
end

-- The head of a class: what goes on first, else the head of the line with the least counter, the earlier where these are equal.
-- Returns id, tenant (nil for what goes on); nothing if a line was lost, whose tenant then waits no longer.
local function head(share, class)
  local restored = redis.call('ZRANGE', key(share, class, 'restored'), 0, 0)
  if restored[1] then return restored[1] end
  local waiting = key(share, class, 'waiting')
  local least = redis.call('ZRANGE', waiting, 0, 0, 'WITHSCORES')
  local id, tenant, arrival
  for _, each in ipairs(redis.call('ZRANGEBYSCORE', waiting, least[2], least[2])) do
    local first = redis.call('ZRANGE', key(share, class, 'line:' .. each), 0, 0, 'WITHSCORES')
    if not first[1] then
      redis.call('ZREM', waiting, each)
    elseif not arrival or tonumber(first[2]) < arrival then
      id, tenant, arrival = first[1], each, tonumber(first[2])
    end
  end
  return id, tenant
end

-- A request's size as `sizes` keeps it: prompt tokens, most tokens to make, weight, class, tenant.
local function size_of(sizes, id)
  local prompt, most, weight, class, tenant = string.match(redis.call('HGET', sizes, id) or '', '^(%S+) (%S+) (%S+) (%S+) (.+)$')
  return tonumber(prompt or '0'), tonumber(most or '0'), tonumber(weight or '1'), class, tenant
end

-- Whether the last slots are kept from a tenant: it is among those that have their share (with commas around each), and somebody was
-- there lately who has less, and may come back.
local function is_kept_from(share, class, tenant, at_their_share, now)
  if not string.find(at_their_share, ',' .. tenant .. ',', 1, true) then return false end
  for _, other in ipairs(redis.call('ZRANGEBYSCORE', key(share, class, 'seen'), now - IDLE_US, '+inf')) do
    if not string.find(at_their_share, ',' .. other .. ',', 1, true) then return true end
  end
  return false
end

-- The class whose turn it is: a lower one that is owed its head's prompt, else the highest that waits. Classes below `lowest` are left
-- out, as if they didn't wait: there is no room for them, and they keep what they are owed.
local function turn(share, sizes, input_cost, lowest)
  local highest, within
  for n = #CLASSES, 1, -1 do
    local class = CLASSES[n]
    within = within or class == lowest
    if within and waits(share, class) then
      local owed = tonumber(redis.call('HGET', share, 'owed:' .. class) or '0')
      local id = owed > 0 and head(share, class)
      if id and owed >= input_cost * size_of(sizes, id) then return class end
      highest = class
    end
  end
  return highest
end
