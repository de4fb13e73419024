-- Which replica has served the longest part of a prompt. A prompt is known by its marks (`inference/prefixes.py`): 8 bytes for each of
-- some of its beginnings, the shortest first. Prepended, behind fair_share, to the scripts that say they use it.
--
-- Behind the key prefix, for each replica, :prefixes:INCARNATION  sorted set, marks by when they were last served (us)
-- Behind `share`:
--   :prefixes  hash, id of what waits to its marks    :room  hash, incarnation to how many it can take, as it said when it last asked
--   :left      hash, id to since when (us) and for which incarnation it is left
local MARK_BYTES = 8
local PREFIXES_KEPT_S = 3600

local function unpacked(packed)
  local marks = {}
  for at = 1, #packed, MARK_BYTES do marks[#marks + 1] = string.sub(packed, at, at + MARK_BYTES - 1) end
  return marks
end

local function note_marks(share, id, packed)
  if packed == '' then return end
  redis.call('HSET', share .. ':prefixes', id, packed)
  redis.call('EXPIRE', share .. ':prefixes', KEPT_S)
end

local function marks_of(share, id) return unpacked(redis.call('HGET', share .. ':prefixes', id) or '') end

-- How many of the marks it has served, counted from the shortest: a longer one holds all shorter ones.
local function served(prefix, incarnation, marks)
  if #marks == 0 then return 0 end
  local found = redis.call('ZMSCORE', prefix .. ':prefixes:' .. incarnation, unpack(marks))
  for n = #marks, 1, -1 do
    if found[n] then return n end
  end
  return 0
end

-- The longest ones are the first to be forgotten, as in an engine's cache. `most`: how many are kept.
local function remember(prefix, incarnation, marks, now, most)
  if #marks == 0 then return end
  local key, scored = prefix .. ':prefixes:' .. incarnation, {}
  for n, mark in ipairs(marks) do
    scored[2 * n - 1], scored[2 * n] = now - n, mark
  end
  redis.call('ZADD', key, unpack(scored))
  redis.call('ZREMRANGEBYRANK', key, 0, -most - 1)
  redis.call('EXPIRE', key, PREFIXES_KEPT_S)
end

-- By its own account, 'ready' if it serves; nil if it is lost.
local function state_of(prefix, incarnation)
  local record = redis.call('GET', prefix .. ':replica:' .. incarnation)
  return record and cmsgpack.unpack(record)['state'] or nil
end

local function runs(prefix, incarnation) return redis.call('HLEN', prefix .. ':running:' .. incarnation) end

local function note_room(share, incarnation, room)
  redis.call('HSET', share .. ':room', incarnation, room)
  redis.call('EXPIRE', share .. ':room', KEPT_S)
end

-- The replicas that serve, and how many each can take. Those that are lost are forgotten.
local function rooms(prefix, share)
  local found, told = {}, redis.call('HGETALL', share .. ':room')
  for at = 1, #told, 2 do
    local state = state_of(prefix, told[at])
    if not state then redis.call('HDEL', share .. ':room', told[at]) end
    if state == 'ready' then found[told[at]] = tonumber(told[at + 1]) end
  end
  return found
end

-- The replica, other than this one, that has served more of the prompt than this one, has room, and runs at most `slack` more.
-- Returns it or nil, how many marks this one has served, and the most that any has.
local function preferred(prefix, share, incarnation, marks, slack)
  local mine = served(prefix, incarnation, marks)
  local best, longest, known = nil, mine, mine
  if #marks == 0 then return best, mine, known end
  local busiest = runs(prefix, incarnation) + slack
  for other, room in pairs(rooms(prefix, share)) do
    local length = other ~= incarnation and served(prefix, other, marks) or 0
    known = math.max(known, length)
    if length > longest and room > 0 and runs(prefix, other) <= busiest then best, longest = other, length end
  end
  return best, mine, known
end

-- How much longer (us) a request is left for another replica; nil if it is no longer, or the clock went back. Once left for all its
-- time, the one that did not come counts as having no room until it asks again, so that one that hangs delays once.
local function still_left(share, id, other, now, most)
  local left = share .. ':left'
  local since, whom = string.match(redis.call('HGET', left, id) or '', '^(%S+) (.+)$')
  if not since then
    redis.call('HSET', left, id, string.format('%.0f', now) .. ' ' .. other)
    redis.call('EXPIRE', left, KEPT_S)
    return most
  end
  local passed = now - tonumber(since)
  if passed >= 0 and passed < most then return most - passed end
  note_room(share, whom, 0)
  return nil
end
