-- A server asks for the key, for a tick or right now. The order of the steps is the contract.
--
-- KEYS  1 lock, 2 state, 3 runs, 4 skips
-- ARGV  1 format, 2 remembered
--       3 token
--       4 server
--       5 ttl
--       6 tick, empty for now; the rest counts only with a tick
--       7 delay
--       8 grace
--       9 overlap: 1 if the tick is skipped when the key is held, 0 if it may wait
--      10 takeovers
-- Reply: the time, then one of
--       won fence attempt since until | lost | early wait | started server since finished
--       skipped reason server at | superseded mark | ahead mark | paused | late by
--       held server since remaining | locked remaining-or-empty

local token, server, ttl, tick = ARGV[3], ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6])
local delay, grace, takeovers = tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[10])
local skip_if_held = ARGV[9] == '1'

local function won()
  return reply('won', state.fence, state.attempt, state.since, state['until'])
end

if state.token == token then
  local stranger = locked and lock_token ~= token
  if state.released == '1' or tonumber(state['until']) <= now or stranger then
    return reply('lost')
  end
  write_even_if_full()
  set_lock(token, tonumber(state['until']))
  return won()
end

-- The last claimant while its lease lasts, else a stranger who set the lock.
local function holder()
  if state.token and state.released == '0' and tonumber(state['until']) > now then
    return reply('held', state.server, state.since, text(tonumber(state['until']) - now))
  end
  if locked and lock_token ~= state.token then
    local left = redis.call('PTTL', lock_key)
    local vanishes = (math.floor(now / 1000) + left + 1) * 1000
    return reply('locked', left >= 0 and text(vanishes - now) or '')
  end
end

local function win(attempt)
  if state.token and state.released == '0' then
    remember(state, 'crashed', 'null')
  end
  state = {
    format = text(format),
    token = token,
    server = server,
    tick = tick and text(tick) or '',
    attempt = text(attempt),
    since = text(now),
    ['until'] = text(expiry(ttl)),
    released = '0',
    -- Time makes fences grow even over a failover that lost the last one.
    fence = text(math.max(tonumber(state.fence or 0) + 1, now)),
    mark = state.mark,
  }
  if tick then
    state.started_tick, state.started_attempt, state.finished = state.tick, state.attempt, '0'
    if tonumber(state.mark or tick) <= tick then
      state.mark, state.mark_skip, state.mark_server, state.mark_at = state.tick, '', server, state.since
    end
  end
  local changes = {}
  for field, value in pairs(state) do
    changes[#changes + 1] = field
    changes[#changes + 1] = value
  end
  redis.call('HSET', state_key, unpack(changes))
  set_lock(token, tonumber(state['until']))
  return won()
end

-- Decided once for all servers.
local function skip(reason)
  redis.call('HSET', state_key, 'format', text(format), 'mark', text(tick), 'mark_skip', reason,
    'mark_server', server, 'mark_at', text(now))
  redis.call('LPUSH', skips_key, '{"tick":' .. text(tick)
    .. ',"reason":"' .. reason
    .. '","server":' .. cjson.encode(server)
    .. ',"at":' .. text(now) .. '}')
  redis.call('LTRIM', skips_key, 0, remembered - 1)
end

if not tick then
  return holder() or win(1)
end

local due = tick + delay
if due > now then
  return reply('early', text(due - now))
end

local last_started = state.started_tick and tonumber(state.started_tick) == tick
local attempt = tonumber(state.started_attempt)
local unfinished = last_started and state.finished == '0'
if unfinished and state.paused ~= '1' and attempt <= takeovers and not holder() then
  return win(attempt + 1)
end

local mark = state.mark and tonumber(state.mark)
if mark and mark >= tick then
  if mark > now then
    return reply('ahead', state.mark)
  elseif mark > tick then
    return reply('superseded', state.mark)
  elseif state.mark_skip ~= '' then
    return reply('skipped', state.mark_skip, state.mark_server, state.mark_at)
  end
  return reply('started', state.mark_server, state.mark_at, last_started and state.finished or '0')
end

if state.paused == '1' then
  skip('paused')
  return reply('paused')
end
if now > due + grace then
  return reply('late', text(now - due))
end
local held = holder()
if held then
  if skip_if_held then
    skip('held')
  end
  return held
end
return win(1)
