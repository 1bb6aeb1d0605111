-- Who holds the key, and slots of it.
--
-- KEYS  as in state.lua
-- ARGV  1 format
-- Reply: the time, then a list for the lock and one for each slot, see held_now

return reply(held_now())
