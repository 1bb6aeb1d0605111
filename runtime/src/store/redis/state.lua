-- Comes after time.lua in every script of a key's lock: what is stored for the key.
--
-- KEYS  1 lock string, shared with other programs
--       2 state hash
--       3 list of runs, newest first
--       4 list of skips, newest first
--       5 slots: see slots.lua
--       6 a string that is there while somebody waits for the key
-- ARGV  1 the newest format of the state that the caller can read
--
-- What is known of a job stays. The state of other keys has a field `expires`, and goes away with its last use.

local lock_key, state_key, runs_key, skips_key, slots_key, awaited_key = unpack(KEYS)
local format = tonumber(ARGV[1])

local state = {}
local fields = redis.call('HGETALL', state_key)
for i = 1, #fields, 2 do
  state[fields[i]] = fields[i + 1]
end
if #fields > 0 and (tonumber(state.format) or math.huge) > format then
  return redis.error_reply('UNREADABLE ' .. state_key .. ' has format ' .. (state.format or 'unknown')
    .. ', this server reads up to ' .. format)
end

-- A key without a state, and one whose state goes away in this very millisecond.
local outdated = #fields > 0 and (tonumber(state.expires) or math.huge) <= now
if #fields == 0 or outdated then
  state, fields = { expires = '0' }, {}
end
local went_away_by_itself = state.expires ~= nil

-- A lock that is not a string is another library's: nobody's token, but a lock.
local lock_type = redis.call('TYPE', lock_key)['ok']
local locked = lock_type ~= 'none'
local lock_token = lock_type == 'string' and redis.call('GET', lock_key)

-- Redis keeps a key up to and including the millisecond it is told.
local function set_lock(token, lasts_until)
  redis.call('SET', lock_key, token, 'PXAT', text(lasts_until / 1000 - 1))
end

-- A full Redis refuses a script's first write if it may need room, and asks no more after that. What is
-- held must stay extensible and releasable, so such scripts begin with a write that needs none: of a field that
-- is never there.
local function write_even_if_full()
  redis.call('HDEL', state_key, '')
end

-- A step's changes of the state are written all at once, or not at all.
local changes = {}

local function set(field, value)
  state[field] = value
  changes[#changes + 1] = field
  changes[#changes + 1] = value
end

-- A job has the key.
local function stays()
  state.expires = nil
end

local function stays_until(instant)
  if state.expires and instant > tonumber(state.expires) then
    set('expires', text(instant))
  end
end

-- What is known of a job stays. Of other keys it is kept for another ttl after the lease: then no late copy of a
-- message is taken for a new one.
local function outlives(kind, ttl)
  if kind == 'run' then
    stays()
  else
    stays_until(expiry(2 * ttl))
  end
end

local function write()
  if #changes == 0 then
    return
  end
  if outdated then
    redis.call('DEL', state_key, runs_key)
    outdated = false
  end
  redis.call('HSET', state_key, 'format', text(format), unpack(changes))
  changes = {}
  if state.expires then
    expire(state_key, tonumber(state.expires))
    expire(runs_key, tonumber(state.expires))
  elseif went_away_by_itself then
    redis.call('HDEL', state_key, 'expires')
    redis.call('PERSIST', state_key)
    redis.call('PERSIST', runs_key)
    went_away_by_itself = false
  end
end

-- Whoever waits for the key is told that it may be free. A user who may not publish is no reason to fail.
local function tell_who_waits()
  if redis.call('DEL', awaited_key) == 1 then
    redis.pcall('PUBLISH', lock_key .. ':freed', '')
  end
end

-- The newest come first, and only so many are kept.
local function push(list, record, remember)
  if remember == 0 then
    redis.call('DEL', list)
    return
  end
  redis.call('LPUSH', list, record)
  redis.call('LTRIM', list, 0, remember - 1)
  if state.expires then
    expire(list, tonumber(state.expires))
  end
end
