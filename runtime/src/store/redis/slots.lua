-- Comes after time.lua in every script that looks at a key's slots: who holds them.
--
-- KEYS  5 a hash: `fence` of the newest slot, `begun` when the store began to keep this, `expires` when it goes away,
--         and for each slot `slot:<token>`: fence since until of server
--       6 a string that is there while somebody waits for the key
--
-- Slots share nothing with the key's lock.

local slots_key, awaited_key = KEYS[5], KEYS[6]

local slots = { fence = 0, begun = 0, expires = 0, held = {} }
do
  local fields = redis.call('HGETALL', slots_key)
  for i = 1, #fields, 2 do
    local token = string.match(fields[i], '^slot:(.*)$')
    if token then
      local fence, since, lasts_until, of, server = string.match(fields[i + 1], '^(%d+) (%d+) (%d+) (%d+) (.*)$')
      slots.held[#slots.held + 1] = { token = token, fence = tonumber(fence), since = tonumber(since),
        lasts_until = tonumber(lasts_until), of = of, server = server }
    else
      slots[fields[i]] = tonumber(fields[i + 1])
    end
  end
  table.sort(slots.held, function(a, b) return a.fence < b.fence end)
  if #fields > 0 and slots.expires <= now then
    redis.call('DEL', slots_key)
    slots = { fence = 0, begun = 0, expires = 0, held = {} }
  end
end

-- The slot that ends first, unless it is extended: held remaining server since | nil
local function first_slot_to_end()
  local first
  for _, slot in ipairs(slots.held) do
    if slot.lasts_until > now and (not first or slot.lasts_until < first.lasts_until) then
      first = slot
    end
  end
  return first and { 'held', text(first.lasts_until - now), first.server, text(first.since) }
end
