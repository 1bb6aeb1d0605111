-- The holder of a slot gives it back. Fence 0 gives back whatever a claim won whose reply never came.
--
-- KEYS  as in slots.lua
-- ARGV  1 token
--       2 fence
-- Reply: the time, then one of: released | not-held

local token, fence = ARGV[1], tonumber(ARGV[2])

local released = false
for _, slot in ipairs(slots.held) do
  if slot.token == token and (fence == slot.fence or fence == 0) then
    redis.call('HDEL', slots_key, 'slot:' .. token)
    released = true
  end
end
if released then
  tell_who_waits()
  return reply('released')
end
return reply('not-held')
