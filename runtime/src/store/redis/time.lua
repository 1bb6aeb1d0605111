-- Comes before every script: the time, and how numbers are written.
--
-- Instants and durations are in microseconds.

-- Asked once: this clock goes on while a script runs, the one that expires keys does not.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

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

-- Lets Redis remove a key of which nothing counts after an instant. The scripts themselves look at the instant, so a
-- second more does no harm; an instant that has passed meanwhile would remove the key at once.
local function expire(key, instant)
  redis.call('PEXPIREAT', key, text(instant / 1000 + 1000))
end

