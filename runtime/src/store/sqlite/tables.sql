-- One row per key. `since` and `until` are UTC; held while `until` is ahead:
--   SELECT job_name, server, since, until FROM job_lock WHERE datetime(until) > datetime('now');
CREATE TABLE IF NOT EXISTS job_lock (
  namespace TEXT NOT NULL,
  job_name TEXT NOT NULL,
  server TEXT, -- who holds it; NULL, like the next two, once it was released
  since TEXT,
  until TEXT,
  version TEXT NOT NULL,
  fence INTEGER NOT NULL,
  state TEXT NOT NULL, -- JSON in ASCII: what the servers decide by
  expires INTEGER, -- when the row may be removed, in microseconds since 1970; NULL if a job has the key
  PRIMARY KEY (namespace, job_name)
) STRICT;

CREATE INDEX IF NOT EXISTS job_lock_expires ON job_lock (expires) WHERE expires IS NOT NULL;

-- The newest lease of each key, for transactions of the application to check.
CREATE TABLE IF NOT EXISTS job_fence (
  namespace TEXT NOT NULL,
  job_name TEXT NOT NULL,
  fence INTEGER NOT NULL,
  token TEXT NOT NULL,
  finished_at INTEGER, -- when a transaction committed its work with the lease, in microseconds since 1970
  done_until INTEGER, -- until when work that is done once counts as done
  PRIMARY KEY (namespace, job_name)
) STRICT;

CREATE TRIGGER IF NOT EXISTS job_fence_deleted AFTER DELETE ON job_lock BEGIN
  DELETE FROM job_fence WHERE namespace = old.namespace AND job_name = old.job_name;
END;

-- The newest runs that ended, and the newest ticks that were skipped.
CREATE TABLE IF NOT EXISTS job_record (
  id INTEGER PRIMARY KEY,
  namespace TEXT NOT NULL,
  job_name TEXT NOT NULL,
  kind TEXT NOT NULL, -- run, skip
  tick TEXT, -- NULL for a manual run
  server TEXT NOT NULL,
  started TEXT, -- NULL for a skip
  ended TEXT NOT NULL,
  outcome TEXT NOT NULL, -- succeeded, failed and others; of a skip: held, paused, missed
  error TEXT,
  record TEXT NOT NULL -- JSON in ASCII: all of it
) STRICT;

CREATE INDEX IF NOT EXISTS job_record_newest ON job_record (namespace, job_name, kind, id);

-- A foreign key would depend on a setting of each connection.
CREATE TRIGGER IF NOT EXISTS job_lock_deleted AFTER DELETE ON job_lock BEGIN
  DELETE FROM job_record WHERE namespace = old.namespace AND job_name = old.job_name;
END;

-- Notes between servers: heartbeats, requests for manual runs.
CREATE TABLE IF NOT EXISTS job_note (
  namespace TEXT NOT NULL,
  topic TEXT NOT NULL, -- servers, requests
  name TEXT NOT NULL,
  content TEXT NOT NULL,
  expires INTEGER NOT NULL, -- in microseconds since 1970
  PRIMARY KEY (namespace, topic, name)
) STRICT;

CREATE INDEX IF NOT EXISTS job_note_expires ON job_note (expires);
