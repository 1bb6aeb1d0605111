-- The conditional write of one key: see Record::swap_with_lock. Instants are in microseconds.
--
-- KEYS  the lock, the record, its runs and skips (newest first), and a key that is there while a caller listens
-- ARGV  as named below. Empty: no record, no lock, no state (delete), no expiry, leave the lock. An expected lock is '=' and
--       its token, or '*' if it is not a string; a new one is '=' and its token, or '-' to delete it. fence is keep, next
--       or a number. From 14 on: the index in KEYS of a list and an entry, in turn.
-- Reply: {1, time, version, fence}; or, if nothing was written, {0} and what a look reads.
local lock_key, record_key, runs_key, skips_key, awaited_key = unpack(KEYS)
local expected, expected_lock, not_before, not_after, nonce, format, state, expires, fence_change, lock_change, lock_until,
  keep, notify = unpack(ARGV)

-- Every other way to write a number rounds it from 1e14 on.
local function text(number) return string.format('%.0f', number) end

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local record = redis.call('HMGET', record_key, 'format', 'version', 'fence', 'state')
local exists = record[1] and 1 or redis.call('EXISTS', record_key)
local lock = redis.pcall('GET', lock_key)
if type(lock) == 'table' then
  if not string.find(lock.err, 'WRONGTYPE', 1, true) then return lock end
  lock = 0
end
local held = lock == 0 and '*' or lock and '=' .. lock or ''

local same = exists == 0 and expected == '' or record[1] == format and record[2] == expected
if not same or held ~= expected_lock or now < tonumber(not_before) or now > tonumber(not_after) then
  -- The time again, and last: as in a look, a lock must not seem to expire too early.
  return { 0, record, exists, lock, redis.call('PTTL', lock_key), redis.call('TIME') }
end

local version, fence = text(now) .. '-' .. nonce, record[3] or '0'
if fence_change == 'next' then
  fence = text(math.max(fence + 1, now))
elseif fence_change ~= 'keep' and tonumber(fence_change) > tonumber(fence) then
  fence = fence_change
end
local lists = #ARGV > 13 and { runs_key, skips_key } or {}
-- A key of another type fails here, before anything is written.
for _, list in ipairs(lists) do redis.call('LLEN', list) end

-- A full Redis refuses the first write of a script if it may need room, and later ones no more. Leases must stay extensible
-- and releasable, so all but claims begin with a write that needs no room: of a field that is never there.
if fence_change ~= 'next' then redis.call('HDEL', record_key, '') end
if state == '' then
  redis.call('DEL', record_key, runs_key, skips_key)
else
  redis.call('HSET', record_key, 'format', format, 'version', version, 'fence', fence, 'state', state)
  for i = 14, #ARGV, 2 do redis.call('LPUSH', KEYS[tonumber(ARGV[i])], ARGV[i + 1]) end
  for _, list in ipairs(lists) do
    redis.call('LTRIM', list, keep == '0' and 1 or 0, math.max(keep - 1, 0))
  end
  if expires == '' then
    redis.call('PERSIST', record_key)
  else -- A second later: an instant that has just passed must not remove the key at once.
    redis.call('PEXPIREAT', record_key, text(math.max(expires, now) / 1000 + 1000))
  end
end
if lock_change == '-' then
  redis.call('DEL', lock_key)
elseif lock_change ~= '' then
  redis.call('SET', lock_key, string.sub(lock_change, 2), 'PXAT', lock_until)
end
-- A user who may not publish is no reason to fail.
if notify == '1' and redis.call('EXISTS', awaited_key) == 1 then redis.pcall('PUBLISH', lock_key .. ':freed', '') end
return { 1, time, version, fence }
