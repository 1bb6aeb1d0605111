-- Comes after slots.lua in the scripts that claim, extend and release a slot.

local function drop_slots_that_ended()
  local kept, dropped = {}, {}
  for _, slot in ipairs(slots.held) do
    if slot.lasts_until <= now then
      dropped[#dropped + 1] = 'slot:' .. slot.token
    else
      kept[#kept + 1] = slot
    end
  end
  for i = 1, #dropped, 100 do -- Lua has no room for thousands
    redis.call('HDEL', slots_key, unpack(dropped, i, math.min(i + 99, #dropped)))
  end
  slots.held = kept
end

-- Kept for another ttl after the slot, so that no late copy of a message is taken for a new one.
local function put_slot(slot, ttl)
  if #slots.held == 0 and slots.fence == 0 then
    slots.begun = now
  end
  slots.fence = math.max(slots.fence, slot.fence)
  slots.expires = math.max(slots.expires, expiry(2 * ttl))
  redis.call('HSET', slots_key, 'fence', text(slots.fence), 'begun', text(slots.begun), 'expires', text(slots.expires),
    'slot:' .. slot.token, table.concat({ text(slot.fence), text(slot.since), text(slot.lasts_until), slot.of,
    slot.server }, ' '))
  expire(slots_key, slots.expires)
end

local function tell_who_waits()
  if redis.call('DEL', awaited_key) == 1 then
    redis.pcall('PUBLISH', KEYS[1] .. ':freed', '')
  end
end
