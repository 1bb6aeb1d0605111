-- A server says that it is there, and is told for which jobs a run was requested.
--
-- KEYS  1 and 2 servers, 3 and 4 requests
-- ARGV  1 server
--       2 what it says of itself
--       3 how long that counts
-- Reply: the time, then a list of jobs' keys and requests' ids, in turn

remove_expired(servers)
remove_expired(requests)
put(servers, ARGV[1], ARGV[2], now + tonumber(ARGV[3]))
return reply(living(requests))
