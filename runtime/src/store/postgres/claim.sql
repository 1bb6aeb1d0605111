CREATE OR REPLACE FUNCTION jobs_won_v1(s job_lock, missed_after bigint) RETURNS json LANGUAGE sql STABLE AS $$
  SELECT json_build_object('won', json_build_object(
    'fence', s.fence, 'attempt', s.attempt, 'since', s.since, 'until', s.until, 'missed_after', missed_after,
    'successes', s.successes, 'total_micros', s.total_micros
  ))
$$;

CREATE OR REPLACE FUNCTION jobs_win_v1(
  s job_lock, t bigint, my_kind text, my_token text, my_server text, my_ttl bigint, my_tick bigint, my_attempt bigint
) RETURNS job_lock LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF NOT s.released THEN
    s := jobs_count_v1(s, s.until, 'crashed', true);
  END IF;
  -- Time makes fences grow even over a failover that lost the last one.
  s.fence := greatest(s.fence + 1, t);
  s.token := my_token;
  s.server := my_server;
  s.kind := my_kind;
  s.expires := jobs_outlives_v1(s, t, my_kind, my_ttl);
  s.tick := my_tick;
  s.attempt := my_attempt;
  s.since := t;
  s.until := jobs_expiry_v1(t, my_ttl);
  s.released := false;
  s.progress := 'null';
  s.lock_token := my_token;
  s.lock_until := s.until;
  IF my_tick IS NOT NULL THEN
    s.started_tick := my_tick;
    s.started_attempt := my_attempt;
    s.finished := false;
    IF s.mark IS NULL OR s.mark <= my_tick THEN
      s.mark := my_tick;
      s.mark_skip := NULL;
      s.mark_server := my_server;
      s.mark_at := t;
    END IF;
  END IF;
  RETURN s;
END
$$;

-- The answer for a tick at or below the mark, else null.
CREATE OR REPLACE FUNCTION jobs_decided_v1(s job_lock, t bigint, my_tick bigint) RETURNS json
LANGUAGE sql STABLE AS $$
  SELECT CASE
    WHEN s.mark IS NULL OR s.mark < my_tick THEN NULL
    WHEN s.mark > t THEN json_build_object('ahead', s.mark)
    WHEN s.mark > my_tick THEN json_build_object('superseded', s.mark)
    WHEN s.mark_skip IS NOT NULL THEN json_build_object('skipped', json_build_object(
      'tick', my_tick, 'reason', s.mark_skip, 'server', s.mark_server, 'at', s.mark_at))
    ELSE json_build_object('started', json_build_object(
      'server', s.mark_server, 'since', s.mark_at,
      'finished', coalesce(s.started_tick = my_tick AND s.finished, false)))
  END
$$;

-- A server asks for the key. The order of the steps is the contract.
--
-- Most servers lose, and whoever changes nothing locks nothing: the first look is a plain one, and only a claim
-- that would write locks the row and is decided anew.
CREATE OR REPLACE FUNCTION jobs_claim_v1(
  ns text, name text, reads integer, my_token text, my_server text, my_ttl bigint, remember bigint,
  waits boolean,
  what text, -- tick, now, requested, lock, once, or leader
  request text, -- its id; the rest counts only for a tick
  my_tick bigint, delay bigint, grace bigint, skip_if_held boolean, takeovers bigint, run_if_missed boolean,
  schedule text, known_for bigint
) RETURNS text LANGUAGE plpgsql SET search_path FROM CURRENT SET lock_timeout = '250ms' AS $$
DECLARE
  access text := 'read';
  my_kind text := CASE WHEN what IN ('lock', 'once', 'leader') THEN what ELSE 'run' END;
  s job_lock;
  before job_lock;
  t bigint;
  had_expired boolean;
  held json;
  unfinished boolean;
  remaining bigint;
  other json;
  registered boolean;
  late boolean;
  skipped text;
  decision json;
BEGIN
  LOOP
    s := jobs_state_v1(ns, name, reads, access);
    t := jobs_clock_v1();
    had_expired := s.expires <= t;
    s := jobs_without_expired_v1(s, t);
    before := s;
    held := jobs_holder_v1(s, t);
    -- The last started tick, if it may have to be taken over. A pause only puts that off.
    unfinished := coalesce(what = 'tick' AND NOT s.finished AND s.started_attempt <= takeovers
      AND s.started_tick <= t, false);
    remaining := CASE WHEN s.paused THEN NULL WHEN held IS NULL THEN 0 ELSE (held ->> 'remaining')::bigint END;
    other := NULL;
    skipped := NULL;

    IF s.token = my_token THEN
      -- The claimant repeats its claim: a reply was lost.
      IF s.released OR s.until <= t OR s.lock_token <> s.token THEN
        decision := '"lost"';
      ELSE
        s.lock_token := s.token;
        s.lock_until := s.until;
        decision := jobs_won_v1(s, NULL);
      END IF;

    ELSIF what = 'requested' AND (s.request_id = request AND s.request_answer IS NULL AND s.request_until > t)
      IS NOT TRUE
    THEN
      decision := '"not_requested"';

    ELSIF what = 'once' AND s.done_until > t THEN
      decision := json_build_object('done', s.done_at);

    ELSIF what <> 'tick' THEN
      -- By hand only a holder is in the way. Whoever comes first answers a request, in the same step.
      IF held IS NULL THEN
        s := jobs_win_v1(s, t, my_kind, my_token, my_server, my_ttl, NULL, 1);
        decision := jobs_won_v1(s, NULL);
      ELSE
        decision := json_build_object('held', held);
      END IF;
      IF what = 'requested' AND held IS NULL THEN
        s.request_answer := 'started';
        s.request_server := my_server;
        s.request_fence := s.fence;
      ELSIF what = 'requested' THEN
        s.request_answer := CASE WHEN held ->> 'server' IS NULL THEN 'locked' ELSE 'held' END;
        s.request_server := held ->> 'server';
      END IF;

    ELSIF my_tick + delay > t THEN
      unfinished := false;
      decision := json_build_object('early', my_tick + delay - t);

    ELSE
      s.expires := NULL;
      -- Remembers the schedule of the newest server, and tells of one that differs from the asking server's.
      -- If the clock has gone back, no tick may count as unknown for it, and no server as old.
      IF s.registered_at IS NOT NULL THEN
        s.registered_at := least(s.registered_at, t);
        s.registered_begun := least(s.registered_begun, t);
        s.registered_used := least(s.registered_used, t);
        IF s.registered_schedule <> schedule THEN
          other := json_build_object('schedule', s.registered_schedule, 'at', s.registered_at,
            'server', s.registered_server, 'begun', s.registered_begun, 'used', s.registered_used);
        END IF;
      END IF;
      -- While old and new servers run side by side the old ones change nothing, but a schedule with which no tick
      -- was won for an hour is followed by no server.
      IF s.registered_at IS NULL OR (other IS NOT NULL
        AND (t - known_for > s.registered_begun OR s.registered_used + 3600000000 < t))
      THEN
        s.registered_schedule := schedule;
        s.registered_at := t;
        s.registered_server := my_server;
        s.registered_begun := t - known_for;
        s.registered_used := t;
      END IF;
      registered := s.registered_schedule = schedule AND s.registered_at < my_tick;
      late := t > my_tick + delay + grace;
      decision := jobs_decided_v1(s, t, my_tick);

      IF unfinished AND s.started_tick = my_tick AND remaining = 0 THEN
        s := jobs_win_v1(s, t, my_kind, my_token, my_server, my_ttl, my_tick, s.started_attempt + 1);
        decision := jobs_won_v1(s, NULL);
      ELSIF decision IS NOT NULL THEN
        NULL;
      ELSIF NOT registered AND t - known_for >= my_tick THEN
        decision := '"unregistered"';
      ELSIF s.paused THEN
        skipped := 'paused';
        decision := '"paused"';
      -- Only what the store itself remembers shows that nobody ran it meanwhile: after a wipe it shows nothing.
      ELSIF late AND NOT (run_if_missed AND registered) THEN
        decision := json_build_object('late', t - my_tick - delay);
      ELSIF held IS NOT NULL THEN
        -- A tick that was missed waits for its one chance.
        IF skip_if_held AND NOT late THEN
          skipped := 'held';
        END IF;
        decision := json_build_object('held', held);
      ELSE
        s := jobs_win_v1(s, t, my_kind, my_token, my_server, my_ttl, my_tick, 1);
        decision := jobs_won_v1(s, greatest(before.mark, s.registered_at));
      END IF;

      IF decision -> 'won' IS NOT NULL AND s.registered_schedule = schedule THEN
        s.registered_used := t;
      END IF;
      -- Decided once for all servers.
      IF skipped IS NOT NULL THEN
        s.mark := my_tick;
        s.mark_skip := skipped;
        s.mark_server := my_server;
        s.mark_at := t;
      END IF;
    END IF;

    IF waits AND decision -> 'held' IS NOT NULL THEN
      s.awaited := jobs_awaited_v1(s, t);
    END IF;
    EXIT WHEN access = 'make' OR s IS NOT DISTINCT FROM before;
    access := 'make';
  END LOOP;

  IF s IS DISTINCT FROM before THEN
    PERFORM jobs_write_v1(s, had_expired);
    IF s.token IS DISTINCT FROM before.token AND NOT before.released THEN
      PERFORM jobs_record_v1(before, before.until, 'crashed', 'null', '[]', remember);
    END IF;
    IF skipped IS NOT NULL THEN
      PERFORM jobs_record_skip_v1(s, remember);
    END IF;
  END IF;
  RETURN jobs_reply_v1(t, json_build_object(
    'decision', decision,
    'unfinished', CASE WHEN unfinished AND decision -> 'won' IS NULL THEN
      json_build_object('tick', s.started_tick, 'remaining', remaining) END,
    'other_schedule', other
  ));
END
$$;

-- Puts the newest mark on record as skipped, and keeps only so many.
CREATE OR REPLACE FUNCTION jobs_record_skip_v1(s job_lock, remember bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO job_skip (namespace, job_name, tick, reason, server, at)
  VALUES (s.namespace, s.job_name, s.mark, s.mark_skip, s.mark_server, s.mark_at);
  DELETE FROM job_skip r
  WHERE r.namespace = s.namespace AND r.job_name = s.job_name AND r.id <= (
    SELECT x.id FROM job_skip x WHERE x.namespace = s.namespace AND x.job_name = s.job_name
    ORDER BY x.id DESC OFFSET remember LIMIT 1
  );
END
$$;

