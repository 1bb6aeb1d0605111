-- An operator pauses the job, or lets it go on. The ticks of a pause were skipped, not missed.
--
-- KEYS  as in state.lua
-- ARGV  1 format
--       2 paused: 1 or 0
-- Reply: the time

write_even_if_full()
if ARGV[2] == '1' then
  stays()
elseif #fields == 0 then
  return reply()
end
local resumed = state.paused == '1' and ARGV[2] == '0'
if resumed and state.registered_at then
  set('registered_at', text(now))
end
set('paused', ARGV[2])
write()
return reply()
