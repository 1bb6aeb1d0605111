-- The holder is done. One record per lease, however often this is sent.
--
-- KEYS  1 lock, 2 state, 3 runs, 4 skips
-- ARGV  1 format, 2 remembered, 3 to 10 the lease: see lease.lua
--      11 outcome
--      12 finished: 1 if the tick is done with, else 0
--      13 error, as JSON
-- Fence 0 gives back whatever a claim won whose reply never came.
-- Reply: the time, then one of: released | restored | not-held

local outcome, finished, failure = ARGV[11], ARGV[12], ARGV[13]

write_even_if_full()

if lock_token == lease.token then
  redis.call('DEL', lock_key)
end

if state.token == lease.token and (lease_fence == fence or lease_fence == 0) then
  if state.released == '1' then
    return reply('not-held')
  end
  if finished == '1' and state.tick ~= '' and state.started_tick == state.tick then
    redis.call('HSET', state_key, 'released', '1', 'finished', '1')
  else
    redis.call('HSET', state_key, 'released', '1')
  end
  remember(state, outcome, failure)
  return reply('released')
end

if lease_fence > fence then
  restore(lease_until, '1', finished)
  remember(lease, outcome, failure)
  return reply('restored')
end

-- The lease's tick was started, whatever the store has forgotten since; of an abandoned claim nobody knows.
if lease_fence > 0 then
  raise_mark()
end
return reply('not-held')
