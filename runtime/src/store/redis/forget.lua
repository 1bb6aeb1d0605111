-- An operator removes a job that nobody schedules any more.
--
-- KEYS  as in state.lua
-- ARGV  1 format
--       2 for how long it must have been quiet
-- Reply: the time, then one of
--       forgotten | held remaining server since | locked remaining-or-empty | paused | too-recent used

local held = holder() or first_slot_to_end()
if held then
  return reply(unpack(held))
end
if state.paused == '1' then
  return reply('paused')
end

-- Without its mark a late server would run a tick again; without its fence the next one is the time.
local used = math.max(tonumber(state.mark or 0), tonumber(state.fence or 0), slots.fence)
if used + tonumber(ARGV[2]) >= now then
  return reply('too-recent', text(used))
end
redis.call('DEL', lock_key, state_key, runs_key, skips_key, slots_key)
return reply('forgotten')
