-- What is stored. Instants are microseconds since 1970, so that no session's time zone matters; for people:
-- SELECT job_name, server, to_timestamp(until / 1e6) FROM job_lock;

DO $$ BEGIN
  IF to_regclass('job_lock') IS NOT NULL AND NOT EXISTS (
    SELECT FROM pg_attribute WHERE attrelid = to_regclass('job_lock') AND attname = 'registered_schedule'
  ) THEN
    RAISE EXCEPTION 'there is a table job_lock that is another program''s' USING ERRCODE = 'JB002';
  END IF;
END $$;

-- One row per job. Its primary key decides between two servers who claim a job that nobody knows yet.
CREATE TABLE IF NOT EXISTS job_lock (
  namespace text NOT NULL,
  job_name text NOT NULL CHECK (length(job_name) <= 128),
  format integer NOT NULL DEFAULT 1,
  -- The last claimant.
  token text,
  server text,
  tick bigint,
  attempt bigint,
  since bigint,
  until bigint,
  released boolean,
  progress text,
  fence bigint NOT NULL DEFAULT 0,
  -- The lock of another program, or the claimant's.
  lock_token text,
  lock_until bigint,
  -- The last started tick.
  started_tick bigint,
  started_attempt bigint,
  finished boolean,
  -- The newest tick that was claimed or skipped.
  mark bigint,
  mark_skip text,
  mark_server text,
  mark_at bigint,
  paused boolean NOT NULL DEFAULT false,
  registered_schedule text,
  registered_at bigint,
  registered_server text,
  registered_begun bigint,
  registered_used bigint,
  -- The last request to run it by hand; its answer: started, held by a server, or locked by nobody known.
  request_id text,
  request_by text,
  request_until bigint,
  request_answer text,
  request_server text,
  request_fence bigint,
  -- Counts over all runs.
  runs bigint NOT NULL DEFAULT 0,
  failures bigint NOT NULL DEFAULT 0,
  successes bigint NOT NULL DEFAULT 0,
  total_micros bigint NOT NULL DEFAULT 0,
  longest_micros bigint NOT NULL DEFAULT 0,
  last_success bigint,
  PRIMARY KEY (namespace, job_name)
) WITH (fillfactor = 50); -- room for updates that touch no index

-- The newest runs that ended. Texts that a job wrote are JSON, because they may hold what text cannot: U+0000.
CREATE TABLE IF NOT EXISTS job_run (
  namespace text NOT NULL,
  job_name text NOT NULL,
  id bigint GENERATED ALWAYS AS IDENTITY,
  tick bigint,
  server text NOT NULL,
  fence bigint NOT NULL,
  attempt bigint NOT NULL,
  started bigint NOT NULL,
  ended bigint NOT NULL,
  outcome text NOT NULL,
  error json NOT NULL,
  failed_tries json NOT NULL,
  progress json NOT NULL,
  PRIMARY KEY (namespace, job_name, id)
);

-- The newest ticks that were skipped for all servers.
CREATE TABLE IF NOT EXISTS job_skip (
  namespace text NOT NULL,
  job_name text NOT NULL,
  id bigint GENERATED ALWAYS AS IDENTITY,
  tick bigint NOT NULL,
  reason text NOT NULL,
  server text NOT NULL,
  at bigint NOT NULL,
  PRIMARY KEY (namespace, job_name, id)
);

-- The servers, and what each says of itself.
CREATE TABLE IF NOT EXISTS job_server (
  namespace text NOT NULL,
  server text NOT NULL,
  about text NOT NULL,
  until bigint NOT NULL,
  PRIMARY KEY (namespace, server)
);

-- The runs by hand that servers are told of.
CREATE TABLE IF NOT EXISTS job_request (
  namespace text NOT NULL,
  job_name text NOT NULL,
  id text NOT NULL,
  until bigint NOT NULL,
  PRIMARY KEY (namespace, job_name)
);

