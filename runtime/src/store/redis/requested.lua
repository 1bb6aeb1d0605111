-- Comes after state.lua in the scripts of runs by hand that one server asks for and another starts.

-- Whether a request waits for a server that has the job.
local function is_requested()
  return state.request_answer == '' and tonumber(state.request_until) > now
end

-- started server fence | held server | locked | nothing: it waits again
local function answer_request(answer, server, fence)
  set('request_answer', answer)
  set('request_server', server)
  set('request_fence', fence)
end

-- The newest lease started nothing: if it was for a request, that waits again.
local function ask_again()
  if state.request_answer == 'started' and state.request_fence == state.fence then
    answer_request('', '', '')
  end
end
