-- A server asks for one of a key's slots.
--
-- KEYS  as in slots.lua
-- ARGV  1 token
--       2 server
--       3 ttl
--       4 of how many
--       5 waits: 1 if the server waits when all are held, else 0
-- Reply: the time, then one of: won fence since until | held remaining server since

local token, server, ttl, of, waits = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5] == '1'

drop_slots_that_ended()

-- The holder repeats its claim: a reply was lost, or replicas are waited for, and they wait for a write.
for _, slot in ipairs(slots.held) do
  if slot.token == token then
    expire(slots_key, slots.expires)
    return reply('won', text(slot.fence), text(slot.since), text(slot.lasts_until))
  end
end

if #slots.held >= tonumber(of) then
  if waits then
    redis.pcall('SET', awaited_key, '1', 'PX', '60000')
  end
  return reply(unpack(first_slot_to_end()))
end

local fence = math.max(slots.fence + 1, now)
local lasts_until = expiry(ttl)
put_slot({ token = token, fence = fence, since = now, lasts_until = lasts_until, of = of, server = server }, ttl)
return reply('won', text(fence), text(now), text(lasts_until))
