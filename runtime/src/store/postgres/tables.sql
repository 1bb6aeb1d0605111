-- What is stored. Instants are microseconds since 1970, so that no session's time zone matters; for people:
-- SELECT job_name, server, to_timestamp(until / 1e6) FROM job_lock;

DO $$ BEGIN
  IF to_regclass('job_lock') IS NOT NULL AND NOT EXISTS (
    SELECT FROM pg_attribute WHERE attrelid = to_regclass('job_lock') AND attname = 'slots_begun'
  ) THEN
    RAISE EXCEPTION 'there is a table job_lock that is another program''s' USING ERRCODE = 'JB002';
  END IF;
END $$;

-- One row per key. Its primary key decides between two servers who claim a key that nobody knows yet.
CREATE TABLE IF NOT EXISTS job_lock (
  namespace text NOT NULL,
  job_name text NOT NULL CHECK (length(job_name) <= 128),
  format integer NOT NULL DEFAULT 1,
  -- The last claimant.
  token text,
  server text,
  kind text,
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
  -- That the key's work was done, and up to when that counts.
  done_at bigint,
  done_until bigint,
  -- When all of the above, but the lock, counts no longer. Null if a job has the key: then it stays.
  expires bigint DEFAULT 0,
  -- What is known of the key's slots, beside who holds them, and when it counts no longer.
  slots_fence bigint NOT NULL DEFAULT 0,
  slots_begun bigint NOT NULL DEFAULT 0,
  slots_expire bigint NOT NULL DEFAULT 0,
  -- Up to when somebody may be waiting for the key: whoever frees it tells.
  awaited bigint,
  -- When nothing of the row counts any longer, so that it may be removed. Null, and in no index, if it stays.
  gone bigint GENERATED ALWAYS AS (
    CASE WHEN expires IS NULL OR (lock_token IS NOT NULL AND lock_until IS NULL) THEN NULL
    ELSE greatest(expires, slots_expire, lock_until) END
  ) STORED,
  PRIMARY KEY (namespace, job_name)
) WITH (fillfactor = 50); -- room for updates that touch no index

CREATE INDEX IF NOT EXISTS job_lock_gone ON job_lock (namespace, gone) WHERE gone IS NOT NULL;

-- Who holds slots of a key. They go with the key's row, and change only while that is locked.
CREATE TABLE IF NOT EXISTS job_slot (
  namespace text NOT NULL,
  job_name text NOT NULL,
  token text NOT NULL,
  server text NOT NULL,
  of bigint NOT NULL,
  fence bigint NOT NULL,
  since bigint NOT NULL,
  until bigint NOT NULL,
  PRIMARY KEY (namespace, job_name, token),
  FOREIGN KEY (namespace, job_name) REFERENCES job_lock ON DELETE CASCADE
) WITH (fillfactor = 50);

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

