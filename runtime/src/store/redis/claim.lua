-- A server asks for the key. The order of the steps is the contract.
--
-- KEYS  as in state.lua
-- ARGV  1 format
--       2 token
--       3 server
--       4 ttl
--       5 how many runs, and how many skips, are kept
--       6 waits: 1 if the server waits when the key is held, else 0
--       7 what for: tick, now, requested, lock, once, or leader
--       8 the tick, or the request's id; the rest counts only for a tick
--       9 delay
--      10 grace
--      11 overlap: 1 if the tick is skipped when the key is held, 0 if it may wait
--      12 takeovers
--      13 missed: 1 if the tick may run after its grace, else 0
--      14 schedule
--      15 for how long the server has been scheduling the job
-- Reply: the time, then three lists:
--       the decision:
--         won fence attempt since until missed-after-or-empty successes their-total | lost | early wait
--         started server since finished | skipped reason server at | superseded mark | ahead mark
--         unregistered | paused | late by | held remaining server since | locked remaining-or-empty
--         not-requested | done at
--       a tick that may have to be taken over: tick remaining-or-empty; or nothing
--       another schedule that is, or was, registered: schedule at server begun used; or nothing

local token, server, ttl, remember = ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local waits, what = ARGV[6] == '1', ARGV[7]
local tick, delay, grace = tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[10])
local skip_if_held, takeovers, run_if_missed = ARGV[11] == '1', tonumber(ARGV[12]), ARGV[13] == '1'
local schedule, known_for = ARGV[14], tonumber(ARGV[15])

local by_hand = what == 'lock' or what == 'once' or what == 'leader'
local kind = by_hand and what or 'run'

local function won(missed_after)
  return { 'won', state.fence, state.attempt, state.since, state['until'], missed_after,
    state.successes or '0', state.total_micros or '0' }
end

-- The claimant repeats its claim: a reply was lost.
local function claimed_again()
  local stranger = locked and lock_token ~= token
  if state.released == '1' or tonumber(state['until']) <= now or stranger then
    return { 'lost' }
  end
  write_even_if_full()
  set_lock(token, tonumber(state['until']))
  return won('')
end

-- Time makes fences grow even over a failover that lost the last one.
local function next_fence()
  return text(math.max(tonumber(state.fence or 0) + 1, now))
end

local function win(won_tick, attempt)
  outlives(kind, ttl)
  if state.token and state.released == '0' then
    local crashed = { outcome = 'crashed', is_failure = true, failure = 'null', failed_tries = '[]' }
    local ended = tonumber(state['until'])
    record(state, ended, crashed, remember)
    count(state, ended, crashed)
  end
  set('fence', next_fence())
  set('token', token)
  set('server', server)
  set('kind', kind)
  set('tick', won_tick and text(won_tick) or '')
  set('attempt', text(attempt))
  set('since', text(now))
  set('until', text(expiry(ttl)))
  set('released', '0')
  set('progress', 'null')
  local missed_after = ''
  if won_tick then
    if state.registered_schedule == schedule then
      set('registered_used', text(now))
    end
    local mark = tonumber(state.mark)
    if attempt == 1 then
      local registered_at = tonumber(state.registered_at)
      missed_after = text(math.max(registered_at, mark or registered_at))
    end
    set('started_tick', state.tick)
    set('started_attempt', state.attempt)
    set('finished', '0')
    if (mark or won_tick) <= won_tick then
      set('mark', state.tick)
      set('mark_skip', '')
      set('mark_server', server)
      set('mark_at', state.since)
    end
  end
  write()
  set_lock(token, tonumber(state['until']))
  return won(missed_after)
end

local function claimed_by_hand()
  return holder() or win(nil, 1)
end

-- A mark that the work was done is in the way, too.
local function claimed_once()
  if tonumber(state.done_until or 0) > now then
    return { 'done', state.done_at }
  end
  return claimed_by_hand()
end

-- Who frees the key is to tell. A full Redis has no room for this: then whoever waits has to ask again.
local function wait_if_held(decision)
  if waits and (decision[1] == 'held' or decision[1] == 'locked') then
    redis.pcall('SET', awaited_key, '1', 'PX', '60000')
  end
  return decision
end

-- Whoever comes first answers the request, in the same step.
local function claim_requested()
  if not (is_requested() and state.request_id == ARGV[8]) then
    return { 'not-requested' }
  end
  local held = holder()
  if held then
    answer_request(held[1], held[3] or '', '')
    write()
    return held
  end
  answer_request('started', server, next_fence())
  return win(nil, 1)
end

-- Remembers the schedule of the newest server, and returns one that differs from the asking server's.
local function register()
  local other
  if state.registered_at then
    -- If the clock has gone back, no tick may count as unknown for it, and no server as old.
    for _, field in ipairs({ 'registered_at', 'registered_begun', 'registered_used' }) do
      if tonumber(state[field]) > now then
        set(field, text(now))
      end
    end
    if state.registered_schedule == schedule then
      return nil
    end
    other = { state.registered_schedule, state.registered_at, state.registered_server, state.registered_begun,
      state.registered_used }
    -- While old and new servers run side by side the old ones change nothing.
    local abandoned = tonumber(state.registered_used) + 3600000000 < now
    if now - known_for <= tonumber(state.registered_begun) and not abandoned then
      return other
    end
  end
  set('registered_schedule', schedule)
  set('registered_at', text(now))
  set('registered_server', server)
  set('registered_begun', text(now - known_for))
  set('registered_used', text(now))
  return other
end

-- Whether the store knew the job, with this schedule, before this tick.
local function registered_before()
  return state.registered_schedule == schedule and tonumber(state.registered_at) < tick
end

-- The last started tick, if it may have to be taken over. A pause only puts that off.
local function unfinished()
  if state.started_tick and state.finished == '0' and tonumber(state.started_attempt) <= takeovers
    and tonumber(state.started_tick) <= now then
    local held = holder()
    local remaining = held and held[2] or '0'
    return { state.started_tick, state.paused == '1' and '' or remaining }
  end
end

-- The same, for whoever did not win.
local function left_unfinished(decision)
  return what == 'tick' and decision[1] ~= 'won' and unfinished() or {}
end

-- The answer for a tick at or below the mark.
local function decided()
  local mark = tonumber(state.mark)
  if not mark or mark < tick then
    return nil
  elseif mark > now then
    return { 'ahead', state.mark }
  elseif mark > tick then
    return { 'superseded', state.mark }
  elseif state.mark_skip ~= '' then
    return { 'skipped', state.mark_skip, state.mark_server, state.mark_at }
  end
  local finished = tonumber(state.started_tick) == tick and state.finished or '0'
  return { 'started', state.mark_server, state.mark_at, finished }
end

-- Decided once for all servers.
local function skip(reason)
  set('mark', text(tick))
  set('mark_skip', reason)
  set('mark_server', server)
  set('mark_at', text(now))
  write()
  push(skips_key, '{"tick":' .. text(tick)
    .. ',"reason":"' .. reason
    .. '","server":' .. cjson.encode(server)
    .. ',"at":' .. text(now) .. '}', remember)
end

-- A tick that is due, by a claim that is new.
local function claim_tick()
  local open = unfinished()
  if open and tonumber(open[1]) == tick and open[2] == '0' then
    return win(tick, tonumber(state.started_attempt) + 1)
  end
  local answer = decided()
  if answer then
    return answer
  end
  local registered = registered_before()
  local seen_coming = now - known_for < tick
  if not registered and not seen_coming then
    return { 'unregistered' }
  end
  if state.paused == '1' then
    skip('paused')
    return { 'paused' }
  end
  local due = tick + delay
  local late = now > due + grace
  -- Only what the store itself remembers shows that nobody ran it meanwhile: after a wipe it shows nothing.
  if late and not (run_if_missed and registered) then
    return { 'late', text(now - due) }
  end
  local held = holder()
  if held then
    -- A tick that was missed waits for its one chance.
    if skip_if_held and not late then
      skip('held')
    end
    return held
  end
  return win(tick, 1)
end

if state.token == token then
  local decision = claimed_again()
  return reply(decision, left_unfinished(decision), {})
elseif what == 'once' then
  return reply(wait_if_held(claimed_once()), {}, {})
elseif what == 'now' or by_hand then
  return reply(wait_if_held(claimed_by_hand()), {}, {})
elseif what == 'requested' then
  return reply(claim_requested(), {}, {})
end

local due = tick + delay
if due > now then
  return reply({ 'early', text(due - now) }, {}, {})
end
stays()
local other_schedule = register()
local decision = claim_tick()
write()
return reply(decision, left_unfinished(decision), other_schedule or {})
