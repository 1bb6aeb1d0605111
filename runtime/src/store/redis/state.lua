-- Comes before every script of a job: the time, and what is stored for the key.
--
-- KEYS  1 lock string, shared with other programs
--       2 state hash
--       3 list of runs, newest first
--       4 list of skips, newest first
-- ARGV  1 the newest format of the state that the caller can read
--
-- Instants and durations are in microseconds.

local lock_key, state_key, runs_key, skips_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local format = tonumber(ARGV[1])

-- Asked once: this clock goes on while a script runs, the one that expires keys does not.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local state = {}
local fields = redis.call('HGETALL', state_key)
for i = 1, #fields, 2 do
  state[fields[i]] = fields[i + 1]
end
if #fields > 0 and (tonumber(state.format) or math.huge) > format then
  return redis.error_reply('UNREADABLE ' .. state_key .. ' has format ' .. (state.format or 'unknown')
    .. ', this server reads up to ' .. format)
end

-- A lock that is not a string is another library's: nobody's token, but a lock.
local lock_type = redis.call('TYPE', lock_key)['ok']
local locked = lock_type ~= 'none'
local lock_token = lock_type == 'string' and redis.call('GET', lock_key)

-- Every other way to write a number rounds it from 1e14 on.
local function text(number)
  return string.format('%.0f', number)
end

local function reply(...)
  return { text(now), ... }
end

-- Whole milliseconds, rounded up, because that is what a key expires by.
local function expiry(ttl)
  return math.ceil((now + ttl) / 1000) * 1000
end

-- Redis keeps a key up to and including the millisecond it is told.
local function set_lock(token, lasts_until)
  redis.call('SET', lock_key, token, 'PXAT', text(lasts_until / 1000 - 1))
end

-- A full Redis refuses a script's first write if it may need room, and asks no more after that. What is
-- held must stay extensible and releasable, so such scripts begin with a write that needs none.
local function write_even_if_full()
  redis.call('PERSIST', state_key)
end

-- A step's changes of the state are written all at once, or not at all.
local changes = {}

local function set(field, value)
  state[field] = value
  changes[#changes + 1] = field
  changes[#changes + 1] = value
end

local function write()
  if #changes > 0 then
    redis.call('HSET', state_key, 'format', text(format), unpack(changes))
    changes = {}
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
end
