-- Comes after state.lua in the scripts that put a run on record.
--
-- A run is a claimant. An ending has its outcome, whether that is a failure, and as JSON the error and the tries
-- that failed before.

local function count(run, ended, ending)
  local function add(field, amount)
    set(field, text(tonumber(state[field] or 0) + amount))
  end
  if ending.outcome ~= 'not_started' then
    add('runs', 1)
  end
  if ending.is_failure then
    add('failures', 1)
  end
  if ending.outcome == 'succeeded' then
    local took = math.max(ended - tonumber(run.since), 0)
    add('successes', 1)
    add('total_micros', took)
    set('longest_micros', text(math.max(tonumber(state.longest_micros or 0), took)))
    set('last_success', text(ended))
  end
end

local function record(run, ended, ending, remember)
  local tick = run.tick ~= '' and run.tick or 'null'
  push(runs_key, '{"tick":' .. tick
    .. ',"server":' .. cjson.encode(run.server)
    .. ',"fence":' .. run.fence
    .. ',"attempt":' .. run.attempt
    .. ',"started":' .. run.since
    .. ',"ended":' .. text(ended)
    .. ',"outcome":"' .. ending.outcome
    .. '","error":' .. ending.failure
    .. ',"failed_tries":' .. ending.failed_tries
    .. ',"progress":' .. (run.progress or 'null') .. '}', remember)
end
