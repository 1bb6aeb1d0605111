-- What the steps of a job have in common. A change of any function here or below needs a new number in all names:
-- servers of two versions use the same database side by side.
--
-- Nobody waits for long for a row that another session has locked, because a server's other steps wait behind: they
-- share one session. Whoever gave up changed nothing, and asks again.

CREATE OR REPLACE FUNCTION jobs_clock_v1() RETURNS bigint LANGUAGE sql VOLATILE AS $$
  SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
$$;

CREATE OR REPLACE FUNCTION jobs_reply_v1(t bigint, reply json) RETURNS text LANGUAGE sql STABLE AS $$
  SELECT json_build_object('at', t, 'reply', reply)::text
$$;

-- Whole milliseconds, rounded up, as in every store.
CREATE OR REPLACE FUNCTION jobs_expiry_v1(t bigint, ttl bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
  SELECT (t + ttl + 999) / 1000 * 1000
$$;

-- The state of a job. With `read` nothing is locked; with `lock` its row is, if there is one; with `make` there is one.
CREATE OR REPLACE FUNCTION jobs_state_v1(ns text, name text, reads integer, access text) RETURNS job_lock
LANGUAGE plpgsql AS $$
DECLARE
  s job_lock;
BEGIN
  LOOP
    IF access = 'read' THEN
      SELECT * INTO s FROM job_lock l WHERE l.namespace = ns AND l.job_name = name;
    ELSE
      SELECT * INTO s FROM job_lock l WHERE l.namespace = ns AND l.job_name = name FOR UPDATE;
    END IF;
    EXIT WHEN FOUND;
    IF access <> 'make' THEN
      s.namespace := ns;
      s.job_name := name;
      s.format := 1;
      s.fence := 0;
      s.paused := false;
      s.runs := 0;
      s.failures := 0;
      s.successes := 0;
      s.total_micros := 0;
      s.longest_micros := 0;
      EXIT;
    END IF;
    -- Waits for whoever is making it.
    INSERT INTO job_lock (namespace, job_name) VALUES (ns, name) ON CONFLICT DO NOTHING;
  END LOOP;
  IF s.format > reads THEN
    RAISE EXCEPTION 'the state of % has format %, this server reads up to %', name, s.format, reads
      USING ERRCODE = 'JB001';
  END IF;
  RETURN s;
END
$$;

CREATE OR REPLACE FUNCTION jobs_without_expired_lock_v1(s job_lock, t bigint) RETURNS job_lock
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF s.lock_until <= t THEN
    s.lock_token := NULL;
    s.lock_until := NULL;
  END IF;
  RETURN s;
END
$$;

CREATE OR REPLACE FUNCTION jobs_write_v1(s job_lock) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  UPDATE job_lock l SET
    token = s.token, server = s.server, tick = s.tick, attempt = s.attempt, since = s.since, until = s.until,
    released = s.released, progress = s.progress, fence = s.fence,
    lock_token = s.lock_token, lock_until = s.lock_until,
    started_tick = s.started_tick, started_attempt = s.started_attempt, finished = s.finished,
    mark = s.mark, mark_skip = s.mark_skip, mark_server = s.mark_server, mark_at = s.mark_at,
    paused = s.paused,
    registered_schedule = s.registered_schedule, registered_at = s.registered_at,
    registered_server = s.registered_server, registered_begun = s.registered_begun,
    registered_used = s.registered_used,
    request_id = s.request_id, request_by = s.request_by, request_until = s.request_until,
    request_answer = s.request_answer, request_server = s.request_server, request_fence = s.request_fence,
    runs = s.runs, failures = s.failures, successes = s.successes, total_micros = s.total_micros,
    longest_micros = s.longest_micros, last_success = s.last_success
  WHERE l.namespace = s.namespace AND l.job_name = s.job_name;
END
$$;

-- The last claimant while its lease lasts, else a stranger who set the lock, else null.
CREATE OR REPLACE FUNCTION jobs_holder_v1(s job_lock, t bigint) RETURNS json LANGUAGE sql STABLE AS $$
  SELECT CASE
    WHEN NOT s.released AND s.until > t THEN
      json_build_object('server', s.server, 'since', s.since, 'remaining', s.until - t)
    WHEN s.lock_token IS NOT NULL AND s.lock_token IS DISTINCT FROM s.token THEN
      json_build_object('server', NULL, 'since', NULL, 'remaining', s.lock_until - t)
  END
$$;

CREATE OR REPLACE FUNCTION jobs_count_v1(s job_lock, ended bigint, outcome text, is_failure boolean) RETURNS job_lock
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  took bigint := greatest(ended - s.since, 0);
BEGIN
  IF outcome <> 'not_started' THEN
    s.runs := s.runs + 1;
  END IF;
  IF is_failure THEN
    s.failures := s.failures + 1;
  END IF;
  IF outcome = 'succeeded' THEN
    s.successes := s.successes + 1;
    s.total_micros := s.total_micros + took;
    s.longest_micros := greatest(s.longest_micros, took);
    s.last_success := ended;
  END IF;
  RETURN s;
END
$$;

-- Puts the claimant's run on record, and keeps only so many.
CREATE OR REPLACE FUNCTION jobs_record_v1(
  run job_lock, ended bigint, outcome text, error text, failed_tries text, remember bigint
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO job_run (
    namespace, job_name, tick, server, fence, attempt, started, ended, outcome, error, failed_tries, progress
  ) VALUES (
    run.namespace, run.job_name, run.tick, run.server, run.fence, run.attempt, run.since, jobs_record_v1.ended,
    jobs_record_v1.outcome, jobs_record_v1.error::json, jobs_record_v1.failed_tries::json, run.progress::json
  );
  DELETE FROM job_run r
  WHERE r.namespace = run.namespace AND r.job_name = run.job_name AND r.id <= (
    SELECT x.id FROM job_run x WHERE x.namespace = run.namespace AND x.job_name = run.job_name
    ORDER BY x.id DESC OFFSET remember LIMIT 1
  );
END
$$;

