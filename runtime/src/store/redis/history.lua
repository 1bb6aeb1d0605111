-- What is remembered of the job, newest first.
--
-- KEYS  1 lock, 2 state, 3 runs, 4 skips
-- ARGV  1 format, 2 remembered
-- Reply: the time, a list of runs and a list of skips, each as JSON

return reply(redis.call('LRANGE', runs_key, 0, -1), redis.call('LRANGE', skips_key, 0, -1))
