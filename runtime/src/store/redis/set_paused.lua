-- An operator pauses the job, or lets it go on. The ticks of a pause were skipped, not missed.
--
-- KEYS  1 lock, 2 state, 3 runs, 4 skips
-- ARGV  1 format
--       2 paused: 1 or 0
-- Reply: the time

write_even_if_full()
local resumed = state.paused == '1' and ARGV[2] == '0'
if resumed and state.registered_at then
  set('registered_at', text(now))
end
set('paused', ARGV[2])
write()
return reply()
