-- The servers whose announcements still count.
--
-- KEYS  1 and 2 servers, 3 and 4 requests
-- Reply: the time, then a list of ids and what each says of itself, in turn

return reply(living(servers))
