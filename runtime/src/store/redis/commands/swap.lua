-- The conditional write of one key: see Record::swap. Instants are in microseconds.
--
-- KEYS  the lock, the record, a key that is there while a caller listens, and lists (newest first): the one of each entry, or
--       those that go with a deleted record
-- ARGV  as named below. Empty: no record, no lock, no state (delete), no expiry, leave the lock. An expected lock is '=' and
--       its token, or '*' if it is not a string; lock_until is '-' to delete it. fence is keep, next or a number. From 13 on:
--       the entries.
-- Reply: {time, fence}; or, if nothing was written, what a look with the lock's expiry reads.
-- Commands get text: a number is formatted for each of them.
local lock_key, record_key, awaited_key = unpack(KEYS)
local expected, expected_lock, not_before, not_after, nonce, state, expires, fence_change, lock_token, lock_until, keep,
  notify = unpack(ARGV)

-- Every other way to write a number rounds it from 1e14 on.
local function text(number) return string.format('%.0f', number) end

local function is_not_a_string(answer) return string.find(answer.err, 'WRONGTYPE', 1, true) end

-- As Record::to_text begins. The rest is not read: Lua hashes every string that it gets.
local head, lock = redis.pcall('GETRANGE', record_key, '0', '99'), redis.pcall('GET', lock_key)
if type(head) == 'table' then head = is_not_a_string(head) and 0 or redis.call('GETRANGE', record_key, '0', '99') end
if type(lock) == 'table' then lock = is_not_a_string(lock) and 0 or redis.call('GET', lock_key) end
-- An empty string is not ours, either.
if head == '' and redis.call('EXISTS', record_key) == 1 then head = 0 end
local version, fence = string.match(head, '^{"version":"([^"]*)","fence":(%d+),"state":')
local is_expected = (version or head) == expected
  and (lock == 0 and '*' or lock and '=' .. lock or '') == expected_lock
local time = is_expected and redis.call('TIME')
local now = time and time[1] * 1000000 + time[2]
if not is_expected or now < tonumber(not_before) or now > tonumber(not_after) then
  local record = head
  if head ~= 0 then record = redis.call('GET', record_key) end
  -- The time last, as in a look: a lock must not seem to expire too early.
  return { record, lock, redis.call('PTTL', lock_key), redis.call('TIME') }
end

local at = text(now)
fence = fence or '0'
if fence_change == 'next' then
  fence = fence + 1 > now and text(fence + 1) or at
elseif fence_change ~= 'keep' and tonumber(fence_change) > tonumber(fence) then
  fence = fence_change
end
-- A list of another type fails before anything is written: the first one where it is appended to, the others here.
for i = 14, #ARGV do redis.call('LLEN', KEYS[i - 9]) end

-- A full Redis refuses the first write of a script if it may need room, and later ones no more. Leases must stay extensible
-- and releasable, so all but claims begin with a write that needs no room, and changes nothing that is not set anew below.
if fence_change ~= 'next' then redis.call('PERSIST', record_key) end
if state == '' then
  redis.call('DEL', record_key, unpack(KEYS, 4))
else
  for i = 4, #KEYS do
    if redis.call('LPUSH', KEYS[i], ARGV[i + 9]) > tonumber(keep) then
      redis.call('LTRIM', KEYS[i], keep == '0' and 1 or 0, math.max(keep - 1, 0))
    end
  end
  local written = '{"version":"' .. at .. '-' .. nonce .. '","fence":' .. fence .. ',"state":' .. state .. '}'
  if expires == '' then
    redis.call('SET', record_key, written)
  else -- A second later: an instant that has just passed must not remove the key at once.
    redis.call('SET', record_key, written, 'PXAT', text(math.max(expires, now) / 1000 + 1000))
  end
end
if lock_until == '-' then
  redis.call('DEL', lock_key)
elseif lock_until ~= '' then
  redis.call('SET', lock_key, lock_token, 'PXAT', lock_until)
end
-- A user who may not publish is no reason to fail.
if notify == '1' and redis.call('EXISTS', awaited_key) == 1 then redis.pcall('PUBLISH', lock_key .. ':freed', '') end
return { at, fence }
