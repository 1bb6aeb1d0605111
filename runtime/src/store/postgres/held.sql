-- Who holds a key, and slots of it: a list.
CREATE OR REPLACE FUNCTION jobs_held_v1(s job_lock, t bigint) RETURNS json LANGUAGE sql STABLE AS $$
  SELECT coalesce(json_agg(json_build_object('key', s.job_name, 'kind', h.kind, 'fence', h.fence, 'holder', h.holder)
    ORDER BY h.is_slot, h.fence), '[]')
  FROM (
    SELECT false AS is_slot, jobs_holder_v1(s, t) AS holder, CASE WHEN ours.held THEN to_json(s.kind) END AS kind,
      CASE WHEN ours.held THEN s.fence END AS fence
    FROM (SELECT NOT s.released AND s.until > t AS held) ours
    UNION ALL
    SELECT true, json_build_object('server', x.server, 'since', x.since, 'remaining', x.until - t),
      json_build_object('slot', json_build_object('of', x.of)), x.fence
    FROM job_slot x WHERE x.namespace = s.namespace AND x.job_name = s.job_name AND x.until > t
  ) h WHERE h.holder IS NOT NULL
$$;

-- The locks and slots that are held.
CREATE OR REPLACE FUNCTION jobs_locks_v1(ns text, reads integer)
RETURNS text LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
  t bigint := jobs_clock_v1();
  found_ones json;
BEGIN
  SELECT json_agg(h.held ORDER BY l.job_name, h.place) INTO found_ones
  FROM job_lock l, json_array_elements(jobs_held_v1(jobs_without_expired_v1(l, t), t))
    WITH ORDINALITY AS h (held, place)
  WHERE l.namespace = ns AND (l.until > t OR l.lock_token IS NOT NULL OR l.slots_expire > t);
  IF EXISTS (SELECT FROM job_lock l WHERE l.namespace = ns AND l.format > reads) THEN
    RAISE EXCEPTION 'a state has a newer format than %, which this server reads', reads USING ERRCODE = 'JB001';
  END IF;
  RETURN jobs_reply_v1(t, coalesce(found_ones, '[]'));
END
$$;

-- An operator frees the key, and every slot of it, whoever holds them. The holders learn of it at their next extension.
CREATE OR REPLACE FUNCTION jobs_break_lock_v1(ns text, name text, reads integer, remember bigint)
RETURNS text LANGUAGE plpgsql SET search_path FROM CURRENT SET lock_timeout = '250ms' AS $$
DECLARE
  s job_lock := jobs_state_v1(ns, name, reads, 'lock');
  t bigint := jobs_clock_v1();
  had_expired boolean := s.expires <= t;
  before job_lock;
  held json;
  broken boolean;
BEGIN
  s := jobs_without_expired_v1(s, t);
  before := s;
  held := jobs_held_v1(s, t);
  broken := coalesce(NOT s.released AND s.until > t, false);
  DELETE FROM job_slot x WHERE x.namespace = s.namespace AND x.job_name = s.job_name;
  IF broken THEN
    s.released := true;
    s := jobs_count_v1(s, t, 'broken', false);
  END IF;
  s.lock_token := NULL;
  s.lock_until := NULL;
  s.awaited := NULL;
  IF s IS DISTINCT FROM before THEN
    PERFORM jobs_write_v1(s, had_expired);
    IF broken THEN
      PERFORM jobs_record_v1(s, t, 'broken', 'null', '[]', remember);
    END IF;
    PERFORM jobs_tell_v1(before, t);
  END IF;
  RETURN jobs_reply_v1(t, held);
END
$$;

