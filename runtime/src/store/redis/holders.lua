-- Comes after holder.lua and slots.lua in the scripts that tell of all who hold the key.

-- held remaining server since kind fence | locked remaining-or-empty | held remaining server since of fence …
local function held_now()
  local lock = holder() or {}
  if lock[1] == 'held' then
    lock[5], lock[6] = state.kind, state.fence
  end
  local held = {}
  for _, slot in ipairs(slots.held) do
    if slot.lasts_until > now then
      held[#held + 1] = { 'held', text(slot.lasts_until - now), slot.server, text(slot.since), slot.of,
        text(slot.fence) }
    end
  end
  return lock, held
end
