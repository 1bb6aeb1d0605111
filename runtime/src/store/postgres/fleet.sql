-- Reaches the store and asks for its time.
CREATE OR REPLACE FUNCTION jobs_ping_v1() RETURNS text LANGUAGE sql SET search_path FROM CURRENT AS $$
  SELECT jobs_reply_v1(jobs_clock_v1(), NULL)
$$;

-- A server says that it is there, and is told for which jobs a run was requested.
CREATE OR REPLACE FUNCTION jobs_announce_v1(ns text, me text, my_about text, ttl bigint)
RETURNS text LANGUAGE plpgsql SET search_path FROM CURRENT SET lock_timeout = '250ms' AS $$
DECLARE
  t bigint := jobs_clock_v1();
  requests json;
BEGIN
  INSERT INTO job_server AS r (namespace, server, about, until) VALUES (ns, me, my_about, t + ttl)
  ON CONFLICT (namespace, server) DO UPDATE SET about = excluded.about, until = excluded.until;
  -- After the only statement that may wait for others, and waiting for nobody: so there are no deadlocks.
  DELETE FROM job_server WHERE (namespace, server) IN (
    SELECT d.namespace, d.server FROM job_server d WHERE d.namespace = ns AND d.until <= t FOR UPDATE SKIP LOCKED);
  DELETE FROM job_request WHERE (namespace, job_name) IN (
    SELECT d.namespace, d.job_name FROM job_request d WHERE d.namespace = ns AND d.until <= t FOR UPDATE SKIP LOCKED);
  SELECT json_agg(json_build_object('key', r.job_name, 'id', r.id) ORDER BY r.job_name) INTO requests
  FROM job_request r WHERE r.namespace = ns AND r.until > t;
  RETURN jobs_reply_v1(t, coalesce(requests, '[]'));
END
$$;

-- A server says that it is gone.
CREATE OR REPLACE FUNCTION jobs_leave_v1(ns text, me text)
RETURNS text LANGUAGE plpgsql SET search_path FROM CURRENT SET lock_timeout = '250ms' AS $$
BEGIN
  DELETE FROM job_server r WHERE r.namespace = ns AND r.server = me;
  RETURN jobs_reply_v1(jobs_clock_v1(), NULL);
END
$$;

-- What the servers whose announcements still count say of themselves.
CREATE OR REPLACE FUNCTION jobs_servers_v1(ns text)
RETURNS text LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
  t bigint := jobs_clock_v1();
  found_ones json;
BEGIN
  SELECT json_agg(r.about ORDER BY r.server) INTO found_ones
  FROM job_server r WHERE r.namespace = ns AND r.until > t;
  RETURN jobs_reply_v1(t, coalesce(found_ones, '[]'));
END
$$;

