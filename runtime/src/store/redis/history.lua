-- What is known of the job, as it is stored.
--
-- KEYS  as in state.lua
-- ARGV  1 format
-- Reply: the time, the state's fields and values in turn, then the runs and the skips as JSON, newest first

local runs = outdated and {} or redis.call('LRANGE', runs_key, 0, -1)
return reply(fields, runs, redis.call('LRANGE', skips_key, 0, -1))
