-- Comes after time.lua in every script of the fleet: its servers, and the runs by hand that they are asked for.
--
-- KEYS  1 sorted set of the servers' ids, by the instant up to which each counts
--       2 hash of what each says of itself
--       3 sorted set of the keys of jobs for which a run was requested, by the instant up to which that counts
--       4 hash of each request's id

local servers = { expiries = KEYS[1], values = KEYS[2] }
local requests = { expiries = KEYS[3], values = KEYS[4] }

-- The value first, so that every member has one.
local function put(entries, member, value, lasts_until)
  redis.call('HSET', entries.values, member, value)
  redis.call('ZADD', entries.expiries, text(lasts_until), member)
  -- A fleet that is gone leaves nothing behind, a day after its last entry has expired.
  local last = tonumber(redis.call('ZRANGE', entries.expiries, -1, -1, 'WITHSCORES')[2])
  local left = text(math.max(last - now, 0) / 1000 + 86400000)
  redis.call('PEXPIRE', entries.values, left)
  redis.call('PEXPIRE', entries.expiries, left)
end

-- The value first: a member without one is found, and removed, again.
local function remove(entries, members)
  redis.call('HDEL', entries.values, unpack(members))
  redis.call('ZREM', entries.expiries, unpack(members))
end

-- So many at a time, so that no step takes long.
local function remove_expired(entries)
  local expired = redis.call('ZRANGE', entries.expiries, '-inf', text(now), 'BYSCORE', 'LIMIT', 0, 100)
  if #expired > 0 then
    remove(entries, expired)
  end
end

-- The members that count, and their values, in turn.
local function living(entries)
  local found = {}
  for _, member in ipairs(redis.call('ZRANGE', entries.expiries, '(' .. text(now), '+inf', 'BYSCORE')) do
    found[#found + 1] = member
    found[#found + 1] = redis.call('HGET', entries.values, member) or ''
  end
  return found
end
