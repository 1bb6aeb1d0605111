-- What the steps of a key have in common. A change of any function here or below needs a new number in all names:
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

-- A state of which nothing is known. It has no name as long as it has no row, so that nobody writes to a row that another
-- session has made meanwhile.
CREATE OR REPLACE FUNCTION jobs_blank_v1() RETURNS job_lock LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  s job_lock;
BEGIN
  s.format := 1;
  s.fence := 0;
  s.paused := false;
  s.runs := 0;
  s.failures := 0;
  s.successes := 0;
  s.total_micros := 0;
  s.longest_micros := 0;
  s.expires := 0;
  s.slots_fence := 0;
  s.slots_begun := 0;
  s.slots_expire := 0;
  RETURN s;
END
$$;

-- Keys that were made from data must not pile up: whoever adds a row removes a few of which nothing counts any longer.
-- Waits for nobody, so there are no deadlocks. Only a plain scan of the index steps over what was removed before without
-- looking at it again and again until the next vacuum.
CREATE OR REPLACE FUNCTION jobs_sweep_v1(ns text, but_not text) RETURNS void
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
  t bigint := jobs_clock_v1();
  names text[] := ARRAY(
    SELECT l.job_name FROM job_lock l WHERE l.namespace = ns AND l.gone <= t AND l.job_name <> but_not
    ORDER BY l.gone LIMIT 8 FOR UPDATE SKIP LOCKED);
BEGIN
  IF names <> '{}' THEN
    DELETE FROM job_run r WHERE r.namespace = ns AND r.job_name = ANY (names);
    DELETE FROM job_lock l WHERE l.namespace = ns AND l.job_name = ANY (names);
  END IF;
END
$$;

-- The state of a key. With `read` nothing is locked; with `lock` its row is, if there is one; with `make` there is one.
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
      RETURN jobs_blank_v1();
    END IF;
    -- Waits for whoever is making it.
    INSERT INTO job_lock (namespace, job_name) VALUES (ns, name) ON CONFLICT DO NOTHING;
    IF FOUND THEN
      PERFORM jobs_sweep_v1(ns, name);
    END IF;
  END LOOP;
  IF s.format > reads THEN
    RAISE EXCEPTION 'the state of % has format %, this server reads up to %', name, s.format, reads
      USING ERRCODE = 'JB001';
  END IF;
  RETURN s;
END
$$;

-- The state without what has expired: the lock, the slots, and all that is known of a key that no job has.
CREATE OR REPLACE FUNCTION jobs_without_expired_v1(s job_lock, t bigint) RETURNS job_lock
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  blank job_lock;
BEGIN
  IF s.expires <= t THEN
    blank := jobs_blank_v1();
    blank.namespace := s.namespace;
    blank.job_name := s.job_name;
    blank.format := s.format;
    blank.lock_token := s.lock_token;
    blank.lock_until := s.lock_until;
    blank.slots_fence := s.slots_fence;
    blank.slots_begun := s.slots_begun;
    blank.slots_expire := s.slots_expire;
    blank.awaited := s.awaited;
    s := blank;
  END IF;
  IF s.slots_expire <= t THEN
    s.slots_fence := 0;
    s.slots_begun := 0;
    s.slots_expire := 0;
  END IF;
  IF s.lock_until <= t THEN
    s.lock_token := NULL;
    s.lock_until := NULL;
  END IF;
  RETURN s;
END
$$;

-- Writes all but the slots. If what was there had expired, its records go, too.
CREATE OR REPLACE FUNCTION jobs_write_v1(s job_lock, had_expired boolean) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF had_expired THEN
    DELETE FROM job_run r WHERE r.namespace = s.namespace AND r.job_name = s.job_name;
  END IF;
  UPDATE job_lock l SET
    token = s.token, server = s.server, kind = s.kind, tick = s.tick, attempt = s.attempt, since = s.since, until = s.until,
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
    longest_micros = s.longest_micros, last_success = s.last_success,
    done_at = s.done_at, done_until = s.done_until, expires = s.expires, awaited = s.awaited
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

-- When what is known of the key expires, if it is needed up to an instant at least. Of a job it never does.
CREATE OR REPLACE FUNCTION jobs_stays_until_v1(s job_lock, instant bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN s.expires IS NOT NULL THEN greatest(s.expires, instant) END
$$;

-- The same for a lease: what is known of a job stays. Of other keys it is kept for another ttl after the lease: then no
-- late copy of a message is taken for a new one.
CREATE OR REPLACE FUNCTION jobs_outlives_v1(s job_lock, t bigint, kind text, ttl bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN kind <> 'run' THEN jobs_stays_until_v1(s, jobs_expiry_v1(t, 2 * ttl)) END
$$;

-- Whoever waits is to be told when the key is freed. Written now and then only, because a loser should write nothing.
CREATE OR REPLACE FUNCTION jobs_awaited_v1(s job_lock, t bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN s.awaited >= t + 30000000 THEN s.awaited ELSE t + 60000000 END
$$;

-- Tells whoever waits that the key may be free, and only then: messages make those who send them wait for each other.
CREATE OR REPLACE FUNCTION jobs_tell_v1(s job_lock, t bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF s.awaited > t THEN
    PERFORM pg_notify('jobs_freed', current_schema() || '/' || s.namespace || '/' || s.job_name);
  END IF;
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

