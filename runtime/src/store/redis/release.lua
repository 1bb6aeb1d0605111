-- The holder is done. One record per lease, however often this is sent.
--
-- KEYS  as in state.lua
-- ARGV  1 format, 2 to 11 the lease: see lease.lua
--      12 outcome
--      13 finished: 1 if the tick is done with, else 0
--      14 failure: 1 if it counts as one, else 0
--      15 error, as JSON
--      16 failed tries, as JSON
--      17 how many runs are kept
--      18 for how long the work counts as done, or empty
-- Fence 0 gives back whatever a claim won whose reply never came.
-- Reply: the time, then one of: released | restored | not-held

local finished, remember, done_for = ARGV[13], tonumber(ARGV[17]), tonumber(ARGV[18])
local ending = { outcome = ARGV[12], is_failure = ARGV[14] == '1', failure = ARGV[15], failed_tries = ARGV[16] }

-- The state first: what it counts as released is never recorded twice.
local function conclude()
  count(state, now, ending)
  if done_for then
    local done_until = expiry(done_for)
    set('done_at', text(now))
    set('done_until', text(done_until))
    stays_until(done_until)
  end
  write()
  record(state, now, ending, remember)
  tell_who_waits()
end

write_even_if_full()

if lock_token == lease.token then
  redis.call('DEL', lock_key)
end

if state.token == lease.token and (lease_fence == fence or lease_fence == 0) then
  if state.released == '1' then
    return reply('not-held')
  end
  if finished == '1' and state.tick ~= '' and state.started_tick == state.tick then
    set('finished', '1')
  end
  if ending.outcome == 'not_started' then
    ask_again()
  end
  set('released', '1')
  set('progress', lease.progress)
  conclude()
  return reply('released')
end

if lease_fence > fence then
  restore(lease_until, '1', finished)
  conclude()
  return reply('restored')
end

-- The lease's tick was started, whatever the store has forgotten since; of an abandoned claim nobody knows.
if lease_fence > 0 then
  raise_mark()
  write()
end
return reply('not-held')
