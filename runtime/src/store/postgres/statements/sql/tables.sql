-- One row per key. Held while `until` is ahead: SELECT job_name, server, since, until FROM job_lock WHERE until > now();
CREATE TABLE IF NOT EXISTS $schema.job_lock (
  namespace text COLLATE "C" NOT NULL,
  job_name text COLLATE "C" NOT NULL,
  server text, -- who holds it; NULL, like the next two, once it was released
  since timestamptz,
  until timestamptz,
  version text NOT NULL,
  fence bigint NOT NULL,
  state text NOT NULL, -- JSON in ASCII: what the servers decide by
  expires timestamptz, -- when the row may be removed; NULL if a job has the key
  PRIMARY KEY (namespace, job_name)
) WITH (fillfactor = 50); -- room for updates that touch no index

CREATE INDEX IF NOT EXISTS job_lock_expires ON $schema.job_lock (expires) WHERE expires IS NOT NULL;

-- The newest lease of each key. Only a new lease changes a row, so that a transaction of the application can check and lock it
-- while the lease is extended.
CREATE TABLE IF NOT EXISTS $schema.job_fence (
  namespace text COLLATE "C" NOT NULL,
  job_name text COLLATE "C" NOT NULL,
  fence bigint NOT NULL,
  token text COLLATE "C" NOT NULL,
  finished_at timestamptz, -- when a transaction committed its work with the lease
  done_until timestamptz, -- until when work that is done once counts as done
  PRIMARY KEY (namespace, job_name),
  FOREIGN KEY (namespace, job_name) REFERENCES $schema.job_lock ON DELETE CASCADE
) WITH (fillfactor = 50);

-- The newest runs that ended, and the newest ticks that were skipped.
CREATE TABLE IF NOT EXISTS $schema.job_record (
  namespace text COLLATE "C" NOT NULL,
  job_name text COLLATE "C" NOT NULL,
  kind text COLLATE "C" NOT NULL, -- run, skip
  id bigint GENERATED ALWAYS AS IDENTITY,
  tick timestamptz, -- NULL for a manual run
  server text NOT NULL,
  started timestamptz, -- NULL for a skip
  ended timestamptz NOT NULL,
  outcome text NOT NULL, -- succeeded, failed and others; of a skip: held, paused, missed
  error text, -- with ? for characters outside ASCII
  record text NOT NULL, -- JSON in ASCII: all of it
  PRIMARY KEY (namespace, job_name, kind, id),
  FOREIGN KEY (namespace, job_name) REFERENCES $schema.job_lock ON DELETE CASCADE
);

-- Notes between servers: heartbeats, requests for manual runs, keys that a caller waits for.
CREATE TABLE IF NOT EXISTS $schema.job_note (
  namespace text COLLATE "C" NOT NULL,
  topic text COLLATE "C" NOT NULL, -- servers, requests, waiting
  name text COLLATE "C" NOT NULL,
  content text NOT NULL, -- a JSON string in ASCII
  until timestamptz NOT NULL,
  PRIMARY KEY (namespace, topic, name)
);

-- Fails if the tables were there and are not these.
SELECT version, state FROM $schema.job_lock LIMIT 0;
