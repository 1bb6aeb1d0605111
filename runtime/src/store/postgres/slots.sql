-- The slots of a key: so many may be held at once, each by a lease of its own. They share nothing with the key's lock but
-- the row, which is locked by whoever changes them, and changed by whoever adds one: so two never count the same room.

-- The slot that ends first, unless it is extended, else null.
CREATE OR REPLACE FUNCTION jobs_first_slot_to_end_v1(s job_lock, t bigint) RETURNS json LANGUAGE sql STABLE AS $$
  SELECT json_build_object('server', x.server, 'since', x.since, 'remaining', x.until - t)
  FROM job_slot x WHERE x.namespace = s.namespace AND x.job_name = s.job_name AND x.until > t
  ORDER BY x.until, x.fence LIMIT 1
$$;

-- Writes what the key's row says of its slots. Kept for another ttl after a slot, as a lock is.
CREATE OR REPLACE FUNCTION jobs_write_slots_v1(s job_lock, t bigint, new_fence bigint, ttl bigint) RETURNS void
LANGUAGE sql AS $$
  UPDATE job_lock l SET
    slots_begun = CASE WHEN s.slots_fence = 0 THEN t ELSE s.slots_begun END,
    slots_fence = greatest(s.slots_fence, new_fence),
    slots_expire = greatest(s.slots_expire, jobs_expiry_v1(t, 2 * ttl))
  WHERE l.namespace = s.namespace AND l.job_name = s.job_name
$$;

CREATE OR REPLACE FUNCTION jobs_await_v1(s job_lock, up_to bigint) RETURNS void LANGUAGE sql AS $$
  UPDATE job_lock l SET awaited = up_to WHERE l.namespace = s.namespace AND l.job_name = s.job_name
$$;

-- A server asks for a slot. As for a lock, whoever changes nothing locks nothing.
CREATE OR REPLACE FUNCTION jobs_slot_claim_v1(
  ns text, name text, reads integer, my_token text, my_server text, my_ttl bigint, my_of bigint, waits boolean
) RETURNS text LANGUAGE plpgsql SET search_path FROM CURRENT SET lock_timeout = '250ms' AS $$
DECLARE
  access text := 'read';
  s job_lock;
  t bigint;
  living bigint;
  ended boolean;
  held json;
  won json;
  hint bigint;
  new_fence bigint;
  lasts_until bigint;
BEGIN
  LOOP
    s := jobs_state_v1(ns, name, reads, access);
    t := jobs_clock_v1();
    s := jobs_without_expired_v1(s, t);
    -- All at once, because without a lock the next look may find something else. The holder may repeat its claim.
    SELECT count(*) FILTER (WHERE x.until > t), coalesce(bool_or(x.until <= t), false),
      (array_agg(json_build_object('server', x.server, 'since', x.since, 'remaining', x.until - t)
        ORDER BY x.until, x.fence) FILTER (WHERE x.until > t))[1],
      (array_agg(json_build_object('fence', x.fence, 'attempt', 1, 'since', x.since, 'until', x.until, 'successes', 0,
        'total_micros', 0)) FILTER (WHERE x.until > t AND x.token = my_token))[1]
    INTO living, ended, held, won
    FROM job_slot x WHERE x.namespace = ns AND x.job_name = name;

    hint := s.awaited;
    IF won IS NOT NULL OR living < my_of THEN
      held := NULL;
    ELSIF waits AND held IS NOT NULL THEN
      hint := jobs_awaited_v1(s, t);
    END IF;
    EXIT WHEN access = 'make'
      OR ((won IS NOT NULL OR held IS NOT NULL) AND NOT ended AND hint IS NOT DISTINCT FROM s.awaited);
    access := 'make';
  END LOOP;

  IF ended THEN
    DELETE FROM job_slot x WHERE x.namespace = ns AND x.job_name = name AND x.until <= t;
  END IF;
  IF hint IS DISTINCT FROM s.awaited THEN
    PERFORM jobs_await_v1(s, hint);
  END IF;
  IF held IS NOT NULL THEN
    RETURN jobs_reply_v1(t, json_build_object('decision', json_build_object('held', held)));
  END IF;
  IF won IS NULL THEN
    new_fence := greatest(s.slots_fence + 1, t);
    lasts_until := jobs_expiry_v1(t, my_ttl);
    PERFORM jobs_write_slots_v1(s, t, new_fence, my_ttl);
    INSERT INTO job_slot (namespace, job_name, token, server, of, fence, since, until)
    VALUES (ns, name, my_token, my_server, my_of, new_fence, t, lasts_until);
    won := json_build_object('fence', new_fence, 'attempt', 1, 'since', t, 'until', lasts_until, 'successes', 0,
      'total_micros', 0);
  END IF;
  RETURN jobs_reply_v1(t, json_build_object('decision', json_build_object('won', won)));
END
$$;

-- The holder of a slot asks for more time. A store that has lost the slot takes it back, if there is room.
CREATE OR REPLACE FUNCTION jobs_slot_extend_v1(
  ns text, name text, reads integer, my_token text, my_server text, my_ttl bigint, my_of bigint, my_fence bigint,
  my_since bigint, my_until bigint
) RETURNS text LANGUAGE plpgsql SET search_path FROM CURRENT SET lock_timeout = '250ms' AS $$
DECLARE
  access text := 'lock';
  s job_lock;
  t bigint;
  known_until bigint;
  others bigint;
  lost_by_the_store boolean;
  has_a_place boolean;
  stays boolean;
  lasts_until bigint;
BEGIN
  LOOP
    s := jobs_state_v1(ns, name, reads, access);
    t := jobs_clock_v1();
    s := jobs_without_expired_v1(s, t);
    SELECT max(x.until) FILTER (WHERE x.token = my_token AND x.fence = my_fence AND s.slots_expire > t),
      count(*) FILTER (WHERE x.token <> my_token AND x.until > t)
    INTO known_until, others
    FROM job_slot x WHERE x.namespace = s.namespace AND x.job_name = s.job_name;

    lost_by_the_store := my_fence > s.slots_fence OR my_since < s.slots_begun;
    -- Who held its slot without a gap keeps it, even if there are fewer by now.
    has_a_place := coalesce(known_until > t, false) OR others < my_of;
    -- The holder may know of a later expiry than a store that lost its last writes.
    stays := greatest(known_until, my_until) > t AND (known_until IS NOT NULL OR lost_by_the_store) AND has_a_place;
    EXIT WHEN NOT stays OR s.namespace IS NOT NULL;
    access := 'make';
  END LOOP;

  DELETE FROM job_slot x
  WHERE x.namespace = s.namespace AND x.job_name = s.job_name AND x.until <= t AND NOT (stays AND x.token = my_token);
  IF NOT stays THEN
    RETURN jobs_reply_v1(t, '"lost"');
  END IF;
  lasts_until := jobs_expiry_v1(t, my_ttl);
  PERFORM jobs_write_slots_v1(s, t, my_fence, my_ttl);
  INSERT INTO job_slot (namespace, job_name, token, server, of, fence, since, until)
  VALUES (ns, name, my_token, my_server, my_of, my_fence, my_since, lasts_until)
  ON CONFLICT (namespace, job_name, token) DO UPDATE SET
    server = excluded.server, of = excluded.of, fence = excluded.fence, since = excluded.since, until = excluded.until;
  RETURN jobs_reply_v1(t, json_build_object(
    CASE WHEN known_until IS NULL THEN 'restored' ELSE 'kept' END, lasts_until));
END
$$;

-- The holder of a slot gives it back. Fence 0 gives back whatever a claim won whose reply never came.
CREATE OR REPLACE FUNCTION jobs_slot_release_v1(ns text, name text, reads integer, my_token text, my_fence bigint)
RETURNS text LANGUAGE plpgsql SET search_path FROM CURRENT SET lock_timeout = '250ms' AS $$
DECLARE
  s job_lock := jobs_state_v1(ns, name, reads, 'lock');
  t bigint := jobs_clock_v1();
BEGIN
  DELETE FROM job_slot x
  WHERE x.namespace = s.namespace AND x.job_name = s.job_name AND x.token = my_token AND my_fence IN (x.fence, 0)
    AND s.slots_expire > t;
  IF NOT FOUND THEN
    RETURN jobs_reply_v1(t, '"not_held"');
  END IF;
  IF s.awaited IS NOT NULL THEN
    PERFORM jobs_await_v1(s, NULL);
    PERFORM jobs_tell_v1(s, t);
  END IF;
  RETURN jobs_reply_v1(t, '"released"');
END
$$;

