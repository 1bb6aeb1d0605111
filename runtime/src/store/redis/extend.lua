-- The holder asks for more time. An expired lease is never extended, a stranger's lock never touched.
--
-- KEYS  as in state.lua
-- ARGV  1 format, 2 to 11 the lease: see lease.lua
-- Reply: the time, then one of: kept until | restored until | lost

write_even_if_full()

local stranger = locked and lock_token ~= lease.token and lock_token ~= state.token
local lasts_until = expiry(ttl)

if state.token == lease.token and fence == lease_fence then
  -- The holder may know of a later expiry than a store that lost its last writes.
  local alive = state.released == '0' and math.max(tonumber(state['until']), lease_until) > now
  if not alive or stranger then
    return reply('lost')
  end
  -- A late copy comes from a holder who had not heard of the newest extension yet: it shortens nothing.
  if lease_until < tonumber(state['until']) then
    lasts_until = math.max(lasts_until, tonumber(state['until']))
  end
  outlives(lease.kind, ttl)
  set('until', text(lasts_until))
  set('progress', lease.progress)
  write()
  set_lock(lease.token, lasts_until)
  return reply('kept', text(lasts_until))
end

if lease_fence > fence and lease_until > now and not stranger then
  restore(lasts_until, '0', '0')
  write()
  set_lock(lease.token, lasts_until)
  return reply('restored', text(lasts_until))
end

return reply('lost')
