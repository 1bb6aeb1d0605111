-- Puts a note, or removes it, and removes some that have expired.
--
-- KEYS  sorted set of the notes' names by their expiry in microseconds, hash of their texts
-- ARGV  name, text, ttl in microseconds: 0 removes the note
-- Reply: the time.
local expiries, texts = unpack(KEYS)
local name, note, ttl = unpack(ARGV)
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local gone = redis.call('ZRANGE', expiries, '-inf', string.format('%.0f', now), 'BYSCORE', 'LIMIT', 0, 100)
if ttl == '0' then gone[#gone + 1] = name end
if #gone > 0 then
  redis.call('HDEL', texts, unpack(gone))
  redis.call('ZREM', expiries, unpack(gone))
end
if ttl ~= '0' then
  redis.call('HSET', texts, name, note)
  redis.call('ZADD', expiries, string.format('%.0f', now + ttl), name)
  -- A fleet that is gone leaves nothing behind, a day after its last note has expired.
  local last = redis.call('ZRANGE', expiries, -1, -1, 'WITHSCORES')[2]
  for _, key in ipairs(KEYS) do redis.call('PEXPIREAT', key, string.format('%.0f', last / 1000 + 86400000)) end
end
return time
