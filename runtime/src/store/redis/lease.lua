-- Comes after state.lua in the scripts that a holder sends: its lease, and how a store that lost it is healed.
--
-- ARGV  2 token
--       3 server
--       4 ttl
--       5 tick, empty for a lease claimed by hand
--       6 attempt
--       7 fence
--       8 since
--       9 until, as far as the holder knows
--      10 progress, as JSON
--      11 kind

local lease = {
  token = ARGV[2],
  server = ARGV[3],
  tick = ARGV[5],
  attempt = ARGV[6],
  fence = ARGV[7],
  since = ARGV[8],
  progress = ARGV[10],
  kind = ARGV[11],
}
local ttl, lease_fence, lease_until = tonumber(ARGV[4]), tonumber(ARGV[7]), tonumber(ARGV[9])
local fence = tonumber(state.fence or 0)

local function raise_mark()
  if lease.tick ~= '' and (not state.mark or tonumber(state.mark) < tonumber(lease.tick)) then
    stays()
    set('mark', lease.tick)
    set('mark_skip', '')
    set('mark_server', lease.server)
    set('mark_at', text(now))
  end
end

-- Puts back a lease that is newer than anything the store knows.
local function restore(lasts_until, released, finished)
  outlives(lease.kind, ttl)
  raise_mark()
  for field, value in pairs(lease) do
    set(field, value)
  end
  set('until', text(lasts_until))
  set('released', released)
  if lease.tick ~= '' then
    set('started_tick', lease.tick)
    set('started_attempt', lease.attempt)
    set('finished', finished)
  end
end
