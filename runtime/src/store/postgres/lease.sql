-- Raises the mark to the lease's tick. A lease is a claimant, in the columns of one.
CREATE OR REPLACE FUNCTION jobs_raise_mark_v1(s job_lock, t bigint, lease job_lock) RETURNS job_lock
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF lease.tick IS NOT NULL AND (s.mark IS NULL OR s.mark < lease.tick) THEN
    s.mark := lease.tick;
    s.mark_skip := NULL;
    s.mark_server := lease.server;
    s.mark_at := t;
    s.expires := NULL;
  END IF;
  RETURN s;
END
$$;

-- Puts back a lease that is newer than anything the store knows: it lost writes.
CREATE OR REPLACE FUNCTION jobs_restore_v1(
  s job_lock, t bigint, lease job_lock, ttl bigint, lasts_until bigint, is_released boolean, is_finished boolean
) RETURNS job_lock LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  s.expires := jobs_outlives_v1(s, t, lease.kind, ttl);
  s := jobs_raise_mark_v1(s, t, lease);
  s.token := lease.token;
  s.server := lease.server;
  s.kind := lease.kind;
  s.tick := lease.tick;
  s.attempt := lease.attempt;
  s.since := lease.since;
  s.until := lasts_until;
  s.released := is_released;
  s.progress := lease.progress;
  s.fence := lease.fence;
  IF lease.tick IS NOT NULL THEN
    s.started_tick := lease.tick;
    s.started_attempt := lease.attempt;
    s.finished := is_finished;
  END IF;
  RETURN s;
END
$$;

-- A lease as its holder tells of it.
CREATE OR REPLACE FUNCTION jobs_lease_v1(
  token text, server text, kind text, tick bigint, attempt bigint, fence bigint, since bigint, progress text
) RETURNS job_lock LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  lease job_lock;
BEGIN
  lease.token := token;
  lease.server := server;
  lease.kind := kind;
  lease.tick := tick;
  lease.attempt := attempt;
  lease.fence := fence;
  lease.since := since;
  lease.progress := progress;
  RETURN lease;
END
$$;

-- The holder asks for more time. An expired lease is never extended, a stranger's lock never touched.
CREATE OR REPLACE FUNCTION jobs_extend_v1(
  ns text, name text, reads integer, my_token text, my_server text, my_ttl bigint, my_kind text, my_tick bigint,
  my_attempt bigint, my_fence bigint, my_since bigint, my_until bigint, my_progress text
) RETURNS text LANGUAGE plpgsql SET search_path FROM CURRENT SET lock_timeout = '250ms' AS $$
DECLARE
  access text := 'lock';
  s job_lock;
  t bigint;
  had_expired boolean;
  stranger boolean;
  lasts_until bigint;
  word text;
BEGIN
  LOOP
    s := jobs_state_v1(ns, name, reads, access);
    t := jobs_clock_v1();
    had_expired := s.expires <= t;
    s := jobs_without_expired_v1(s, t);
    stranger := coalesce(s.lock_token <> my_token AND s.lock_token IS DISTINCT FROM s.token, false);
    lasts_until := jobs_expiry_v1(t, my_ttl);
    word := NULL;

    IF s.token = my_token AND s.fence = my_fence THEN
      -- The holder may know of a later expiry than a store that lost its last writes.
      IF NOT s.released AND greatest(s.until, my_until) > t AND NOT stranger THEN
        s.until := lasts_until;
        s.progress := my_progress;
        s.expires := jobs_outlives_v1(s, t, my_kind, my_ttl);
        word := 'kept';
      END IF;
    ELSIF my_fence > s.fence AND my_until > t AND NOT stranger THEN
      s := jobs_restore_v1(s, t,
        jobs_lease_v1(my_token, my_server, my_kind, my_tick, my_attempt, my_fence, my_since, my_progress),
        my_ttl, lasts_until, false, false);
      word := 'restored';
    END IF;

    IF word IS NULL THEN
      RETURN jobs_reply_v1(t, '"lost"');
    END IF;
    EXIT WHEN s.namespace IS NOT NULL;
    access := 'make';
  END LOOP;
  s.lock_token := my_token;
  s.lock_until := lasts_until;
  PERFORM jobs_write_v1(s, had_expired);
  RETURN jobs_reply_v1(t, json_build_object(word, lasts_until));
END
$$;

-- The holder is done. One record per lease, however often this is sent. Fence 0 gives back whatever a claim won
-- whose reply never came.
CREATE OR REPLACE FUNCTION jobs_release_v1(
  ns text, name text, reads integer, my_token text, my_server text, my_ttl bigint, my_kind text, my_tick bigint,
  my_attempt bigint, my_fence bigint, my_since bigint, my_until bigint, my_progress text,
  outcome text, is_finished boolean, is_failure boolean, error text, failed_tries text, remember bigint, done_for bigint
) RETURNS text LANGUAGE plpgsql SET search_path FROM CURRENT SET lock_timeout = '250ms' AS $$
DECLARE
  access text := 'lock';
  s job_lock;
  before job_lock;
  lease job_lock := jobs_lease_v1(
    my_token, my_server, my_kind, my_tick, my_attempt, my_fence, my_since, my_progress);
  t bigint;
  had_expired boolean;
  word text;
BEGIN
  LOOP
    s := jobs_state_v1(ns, name, reads, access);
    t := jobs_clock_v1();
    had_expired := s.expires <= t;
    s := jobs_without_expired_v1(s, t);
    before := s;
    word := 'not_held';
    IF s.lock_token = my_token THEN
      s.lock_token := NULL;
      s.lock_until := NULL;
    END IF;

    IF s.token = my_token AND my_fence IN (s.fence, 0) THEN
      IF NOT s.released THEN
        IF s.started_tick = s.tick THEN
          s.finished := s.finished OR is_finished;
        END IF;
        -- It started nothing: if it was for a request, that waits again.
        IF outcome = 'not_started' AND s.request_answer = 'started' AND s.request_fence = s.fence THEN
          s.request_answer := NULL;
        END IF;
        s.released := true;
        s.progress := my_progress;
        word := 'released';
      END IF;
    ELSIF my_fence > s.fence THEN
      s := jobs_restore_v1(s, t, lease, my_ttl, my_until, true, is_finished);
      word := 'restored';
    ELSIF my_fence <> 0 THEN
      -- The lease's tick was started, whatever the store has forgotten since; of an abandoned claim nobody knows.
      s := jobs_raise_mark_v1(s, t, lease);
    END IF;

    IF s IS NOT DISTINCT FROM before THEN
      RETURN jobs_reply_v1(t, to_json(word));
    END IF;
    EXIT WHEN s.namespace IS NOT NULL;
    access := 'make';
  END LOOP;

  IF word <> 'not_held' THEN
    s := jobs_count_v1(s, t, outcome, is_failure);
    IF done_for IS NOT NULL THEN
      s.done_at := t;
      s.done_until := jobs_expiry_v1(t, done_for);
      s.expires := jobs_stays_until_v1(s, s.done_until);
    END IF;
    s.awaited := NULL;
  END IF;
  PERFORM jobs_write_v1(s, had_expired);
  IF word <> 'not_held' THEN
    PERFORM jobs_record_v1(s, t, outcome, error, failed_tries, remember);
    PERFORM jobs_tell_v1(before, t);
  END IF;
  RETURN jobs_reply_v1(t, to_json(word));
END
$$;

