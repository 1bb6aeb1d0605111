-- The holder of a slot asks for more time. A store that has lost the slot takes it back, if there is room.
--
-- KEYS  as in slots.lua
-- ARGV  1 token
--       2 server
--       3 ttl
--       4 of how many
--       5 fence
--       6 since
--       7 until, as far as the holder knows
-- Reply: the time, then one of: kept until | restored until | lost

local token, server, ttl, of = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local fence, since, lease_until = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])

local known
local others = 0
for _, slot in ipairs(slots.held) do
  if slot.token ~= token then
    others = others + (slot.lasts_until > now and 1 or 0)
  elseif slot.fence == fence then
    known = slot
  end
end
drop_slots_that_ended()
local lost_by_the_store = fence > slots.fence or since < slots.begun
-- The holder may know of a later expiry than a store that lost its last writes.
local lasts = math.max(lease_until, known and known.lasts_until or 0)
-- Who held its slot without a gap keeps it, even if there are fewer by now.
local uninterrupted = known and known.lasts_until > now
if lasts <= now or not (known or lost_by_the_store) or not (uninterrupted or others < tonumber(of)) then
  return reply('lost')
end
-- A full Redis refuses a script's first write if it may need room: this one needs none.
redis.call('HDEL', slots_key, 'slot:' .. token)

local lasts_until = expiry(ttl)
-- A late copy comes from a holder who had not heard of the newest extension yet: it shortens nothing.
if known and lease_until < known.lasts_until then
  lasts_until = math.max(lasts_until, known.lasts_until)
end
put_slot({ token = token, fence = fence, since = since, lasts_until = lasts_until, of = of, server = server }, ttl)
return reply(known and 'kept' or 'restored', text(lasts_until))
