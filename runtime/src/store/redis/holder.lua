-- Comes after state.lua in the scripts for which it counts who holds the key.

-- The last claimant while its lease lasts, else a stranger who set the lock.
-- held remaining server since | locked remaining-or-empty | nil
local function holder()
  if state.token and state.released == '0' and tonumber(state['until']) > now then
    return { 'held', text(tonumber(state['until']) - now), state.server, state.since }
  end
  if locked and lock_token ~= state.token then
    local left = redis.call('PTTL', lock_key)
    local vanishes = (math.floor(now / 1000) + left + 1) * 1000
    return { 'locked', left >= 0 and text(vanishes - now) or '' }
  end
end
