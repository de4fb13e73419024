-- Give the longest waiting request to a replica: lease, running set and the log's Started entry in one step.
-- KEYS: queue, queue_tenants, running
-- ARGV: incarnation, started entry, key prefix
-- Returns the request, or false when none waits.
while true do
  local popped = redis.call('ZPOPMIN', KEYS[1])
  if #popped == 0 then return false end
  local id = popped[1]
  local request = redis.call('GET', ARGV[3] .. ':request:' .. id)
  if request then
    local fields = cmsgpack.unpack(request)
    local tenant, progress = fields['tenant_id'], fields['progress']
    local seq = type(progress) == 'table' and #progress['token_ids'] or 0
    if redis.call('HINCRBY', KEYS[2], tenant, -1) <= 0 then redis.call('HDEL', KEYS[2], tenant) end
    redis.call('DEL', ARGV[3] .. ':request:' .. id)
    redis.call('SET', ARGV[3] .. ':lease:' .. id, ARGV[1] .. '/' .. (fields['turn'] or 0))
    redis.call('HSET', KEYS[3], id, request)
    redis.call('XADD', ARGV[3] .. ':log:' .. tenant .. ':' .. id, seq .. '-*', 'e', ARGV[2])
    return request
  end
end
