-- An operator pauses the job, or lets it go on. The ticks of a pause were skipped, not missed.
CREATE OR REPLACE FUNCTION jobs_set_paused_v1(ns text, name text, reads integer, pause boolean)
RETURNS text LANGUAGE plpgsql SET search_path FROM CURRENT SET lock_timeout = '250ms' AS $$
DECLARE
  s job_lock := jobs_state_v1(ns, name, reads, CASE WHEN pause THEN 'make' ELSE 'lock' END);
  t bigint := jobs_clock_v1();
  had_expired boolean := s.expires <= t;
  before job_lock;
BEGIN
  s := jobs_without_expired_v1(s, t);
  before := s;
  IF pause THEN
    s.expires := NULL;
  END IF;
  IF s.paused AND NOT pause AND s.registered_at IS NOT NULL THEN
    s.registered_at := t;
  END IF;
  s.paused := pause;
  IF s IS DISTINCT FROM before THEN
    PERFORM jobs_write_v1(s, had_expired);
  END IF;
  RETURN jobs_reply_v1(t, NULL);
END
$$;

-- An operator takes back a mark from the future: ticks up to now stay decided, later ones become free.
CREATE OR REPLACE FUNCTION jobs_reset_v1(ns text, name text, reads integer)
RETURNS text LANGUAGE plpgsql SET search_path FROM CURRENT SET lock_timeout = '250ms' AS $$
DECLARE
  s job_lock := jobs_state_v1(ns, name, reads, 'lock');
  t bigint := jobs_clock_v1();
BEGIN
  IF s.mark > t THEN
    s.mark := t;
    PERFORM jobs_write_v1(s, false);
  END IF;
  RETURN jobs_reply_v1(t, NULL);
END
$$;

-- An operator removes a job that nobody schedules any more.
CREATE OR REPLACE FUNCTION jobs_forget_v1(ns text, name text, reads integer, quiet bigint)
RETURNS text LANGUAGE plpgsql SET search_path FROM CURRENT SET lock_timeout = '250ms' AS $$
DECLARE
  s job_lock := jobs_state_v1(ns, name, reads, 'lock');
  t bigint := jobs_clock_v1();
  held json;
  used bigint;
BEGIN
  s := jobs_without_expired_v1(s, t);
  held := coalesce(jobs_holder_v1(s, t), jobs_first_slot_to_end_v1(s, t));
  -- Without its mark a late server would run a tick again; without its fence the next one is the time.
  used := greatest(s.mark, s.fence);
  IF held IS NOT NULL THEN
    RETURN jobs_reply_v1(t, json_build_object('held', held));
  ELSIF s.paused THEN
    RETURN jobs_reply_v1(t, '"paused"');
  ELSIF used + quiet >= t THEN
    RETURN jobs_reply_v1(t, json_build_object('too_recent', used));
  END IF;
  DELETE FROM job_run r WHERE r.namespace = s.namespace AND r.job_name = s.job_name;
  DELETE FROM job_skip k WHERE k.namespace = s.namespace AND k.job_name = s.job_name;
  DELETE FROM job_lock l WHERE l.namespace = s.namespace AND l.job_name = s.job_name;
  RETURN jobs_reply_v1(t, '"forgotten"');
END
$$;

-- A server that does not have the job's function asks for a run. The answer is the request that counts, and from now
-- on every server is told of it.
CREATE OR REPLACE FUNCTION jobs_request_v1(ns text, name text, reads integer, my_id text, my_by text, my_ttl bigint)
RETURNS text LANGUAGE plpgsql SET search_path FROM CURRENT SET lock_timeout = '250ms' AS $$
DECLARE
  s job_lock := jobs_state_v1(ns, name, reads, 'make');
  t bigint := jobs_clock_v1();
  had_expired boolean := s.expires <= t;
BEGIN
  s := jobs_without_expired_v1(s, t);
  IF (s.request_id IS NOT NULL AND s.request_answer IS NULL AND s.request_until > t) IS NOT TRUE THEN
    s.request_id := my_id;
    s.request_by := my_by;
    s.request_until := t + my_ttl;
    s.request_answer := NULL;
    s.expires := NULL;
    PERFORM jobs_write_v1(s, had_expired);
  END IF;
  INSERT INTO job_request AS r (namespace, job_name, id, until) VALUES (ns, name, s.request_id, s.request_until)
  ON CONFLICT (namespace, job_name) DO UPDATE SET id = excluded.id, until = excluded.until;
  RETURN jobs_reply_v1(t, json_build_object(
    'id', s.request_id, 'by', s.request_by, 'until', s.request_until, 'answer', NULL));
END
$$;

-- What is known of the job, but for the lock: as one statement, so that all of it is of one instant.
CREATE OR REPLACE FUNCTION jobs_history_v1(ns text, name text, reads integer)
RETURNS text LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
  SELECT jobs_reply_v1(jobs_clock_v1(), json_build_object(
    'format', coalesce(s.format, 1),
    'claimant', CASE WHEN s.token IS NOT NULL THEN json_build_object(
      'token', s.token, 'server', s.server, 'kind', s.kind, 'tick', s.tick, 'attempt', s.attempt, 'since', s.since,
      'until', s.until, 'released', s.released, 'progress', s.progress::json) END,
    'started', CASE WHEN s.started_tick IS NOT NULL THEN json_build_object(
      'tick', s.started_tick, 'attempt', s.started_attempt, 'finished', s.finished) END,
    'mark', CASE WHEN s.mark IS NOT NULL THEN json_build_object(
      'tick', s.mark, 'skip', s.mark_skip, 'server', s.mark_server, 'at', s.mark_at) END,
    'fence', coalesce(s.fence, 0),
    'paused', coalesce(s.paused, false),
    'registered', CASE WHEN s.registered_at IS NOT NULL THEN json_build_object(
      'schedule', s.registered_schedule, 'at', s.registered_at, 'server', s.registered_server,
      'begun', s.registered_begun, 'used', s.registered_used) END,
    'request', CASE WHEN s.request_id IS NOT NULL THEN json_build_object(
      'id', s.request_id, 'by', s.request_by, 'until', s.request_until,
      'answer', CASE s.request_answer
        WHEN 'started' THEN json_build_object('started', json_build_object(
          'server', s.request_server, 'fence', s.request_fence))
        WHEN 'held' THEN json_build_object('held', json_build_object('server', s.request_server))
        WHEN 'locked' THEN json_build_object('held', json_build_object('server', NULL))
      END) END,
    'stats', json_build_object(
      'runs', coalesce(s.runs, 0), 'failures', coalesce(s.failures, 0), 'successes', coalesce(s.successes, 0),
      'total_micros', coalesce(s.total_micros, 0), 'longest_micros', coalesce(s.longest_micros, 0),
      'last_success', s.last_success),
    'expires', CASE WHEN s.job_name IS NULL THEN 0 ELSE s.expires END,
    'runs', coalesce((
      SELECT json_agg(json_build_object(
        'tick', r.tick, 'server', r.server, 'fence', r.fence, 'attempt', r.attempt, 'started', r.started,
        'ended', r.ended, 'outcome', r.outcome, 'error', r.error, 'failed_tries', r.failed_tries,
        'progress', r.progress) ORDER BY r.id DESC)
      FROM job_run r WHERE r.namespace = ns AND r.job_name = name), '[]'),
    'skips', coalesce((
      SELECT json_agg(json_build_object(
        'tick', k.tick, 'reason', k.reason, 'server', k.server, 'at', k.at) ORDER BY k.id DESC)
      FROM job_skip k WHERE k.namespace = ns AND k.job_name = name), '[]')
  ))
  FROM (SELECT) nothing LEFT JOIN job_lock s ON s.namespace = ns AND s.job_name = name
$$;

