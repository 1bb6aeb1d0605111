-- A server that does not have the job's function asks for a run.
--
-- KEYS  as in state.lua
-- ARGV  1 format
--       2 id
--       3 by
--       4 ttl
-- Reply: the time, then the request that counts, which nobody has answered: id by until

if not is_requested() then
  stays()
  set('request_id', ARGV[2])
  set('request_by', ARGV[3])
  set('request_until', text(now + tonumber(ARGV[4])))
  answer_request('', '', '')
  write()
end
return reply(state.request_id, state.request_by, state.request_until)
