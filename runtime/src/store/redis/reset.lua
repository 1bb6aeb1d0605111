-- An operator takes back a mark from the future: ticks up to now stay decided, later ones become free.
--
-- KEYS  1 lock, 2 state, 3 runs, 4 skips
-- ARGV  1 format
-- Reply: the time

write_even_if_full()
if state.mark and tonumber(state.mark) > now then
  set('mark', text(now))
  write()
end
return reply()
