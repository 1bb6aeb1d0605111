-- An operator pauses the job, or lets it go on.
--
-- KEYS  1 lock, 2 state, 3 runs, 4 skips
-- ARGV  1 format, 2 remembered
--       3 paused: 1 or 0
-- Reply: the time

write_even_if_full()
redis.call('HSET', state_key, 'format', text(format), 'paused', ARGV[3])
return reply()
