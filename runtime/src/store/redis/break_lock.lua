-- An operator frees the key, and every slot of it, whoever holds them. The holders learn of it at their next extension.
--
-- KEYS  as in state.lua
-- ARGV  1 format
--       2 how many runs are kept
-- Reply: the time, then what was held: see holders.lua

write_even_if_full()
local lock, held_slots = held_now()

redis.call('DEL', lock_key)
if lock[1] == 'held' then
  local broken = { outcome = 'broken', is_failure = false, failure = 'null', failed_tries = '[]' }
  set('released', '1')
  count(state, now, broken)
  write()
  record(state, now, broken, tonumber(ARGV[2]))
end
for _, slot in ipairs(slots.held) do
  redis.call('HDEL', slots_key, 'slot:' .. slot.token)
end
-- Whatever is older was not lost by the store, but broken.
if slots.begun > 0 then
  redis.call('HSET', slots_key, 'begun', '0')
end
tell_who_waits()
return reply(lock, held_slots)
