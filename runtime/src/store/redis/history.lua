-- What is known of the job, as it is stored.
--
-- KEYS  1 lock, 2 state, 3 runs, 4 skips
-- ARGV  1 format
-- Reply: the time, the state's fields and values in turn, then the runs and the skips as JSON, newest first

return reply(fields, redis.call('LRANGE', runs_key, 0, -1), redis.call('LRANGE', skips_key, 0, -1))
