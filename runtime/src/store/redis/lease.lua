-- Comes after state.lua in the scripts that a holder sends: its lease, and how a store that lost it is healed.
--
-- ARGV  3 token
--       4 server
--       5 ttl
--       6 tick, empty for a lease claimed by hand
--       7 attempt
--       8 fence
--       9 since
--      10 until, as far as the holder knows

local lease = {
  token = ARGV[3],
  server = ARGV[4],
  tick = ARGV[6],
  attempt = ARGV[7],
  fence = ARGV[8],
  since = ARGV[9],
}
local ttl, lease_fence, lease_until = tonumber(ARGV[5]), tonumber(ARGV[8]), tonumber(ARGV[10])
local fence = tonumber(state.fence or 0)

local function raise_mark()
  if lease.tick ~= '' and (not state.mark or tonumber(state.mark) < tonumber(lease.tick)) then
    redis.call('HSET', state_key, 'format', text(format), 'mark', lease.tick, 'mark_skip', '',
      'mark_server', lease.server, 'mark_at', text(now))
  end
end

-- Puts back a lease that is newer than anything the store knows.
local function restore(lasts_until, released, finished)
  raise_mark()
  local changes = { 'format', text(format), 'token', lease.token, 'server', lease.server, 'tick', lease.tick,
    'attempt', lease.attempt, 'since', lease.since, 'until', text(lasts_until), 'released', released,
    'fence', lease.fence }
  if lease.tick ~= '' then
    for _, change in ipairs({ 'started_tick', lease.tick, 'started_attempt', lease.attempt, 'finished', finished }) do
      changes[#changes + 1] = change
    end
  end
  redis.call('HSET', state_key, unpack(changes))
end
