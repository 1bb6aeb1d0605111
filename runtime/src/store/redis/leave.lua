-- A server says that it is gone.
--
-- KEYS  1 and 2 servers, 3 and 4 requests
-- ARGV  1 server
-- Reply: the time

remove(servers, { ARGV[1] })
return reply()
