-- Tells the servers that announce themselves from now on of a run that was requested.
--
-- KEYS  1 and 2 servers, 3 and 4 requests
-- ARGV  1 the job's key
--       2 the request's id
--       3 until
-- Reply: the time

put(requests, ARGV[1], ARGV[2], tonumber(ARGV[3]))
return reply()
