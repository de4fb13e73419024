-- Prepended to the scripts that take from the queue.

local function take_out(queue, tenants, sizes, share, class, tenant, id)
  if not leave(queue, share, class, tenant, id) then return false end
  redis.call('HDEL', sizes, id)
  redis.call('HDEL', share .. ':prefixes', id)
  redis.call('HDEL', share .. ':left', id)
  if redis.call('HINCRBY', tenants, tenant, -1) <= 0 then redis.call('HDEL', tenants, tenant) end
  return true
end

-- The request whose turn it is, of class `lowest` or one above it. One whose body has expired is dropped on the way.
-- Returns {id, class, tenant, prompt tokens, weight}, request; or nil, false when none waits.
local function upcoming(queue, tenants, sizes, share, prefix, input_cost, lowest)
  while true do
    local class = turn(share, sizes, input_cost, lowest)
    if not class then return nil, false end
    local id, tenant = head(share, class)
    if id then
      local prompt, _, weight, _, whose = size_of(sizes, id)
      tenant = tenant or whose or ''
      local request = redis.call('GET', prefix .. ':request:' .. id)
      if request then return {id = id, class = class, tenant = tenant, prompt = prompt, weight = weight}, request end
      take_out(queue, tenants, sizes, share, class, tenant, id)
    end
  end
end
