-- An operator takes back a mark from the future: ticks up to now stay decided, later ones become free.
--
-- KEYS  as in state.lua
-- ARGV  1 format
-- Reply: the time

write_even_if_full()
if state.mark and tonumber(state.mark) > now then
  set('mark', text(now))
  write()
end
return reply()
