-- One row per key. `since` and `until` are UTC; held while `until` is ahead:
--   SELECT job_name, server, since, until FROM job_lock WHERE until > UTC_TIMESTAMP(6);
CREATE TABLE IF NOT EXISTS job_lock (
  namespace VARCHAR(128) NOT NULL,
  job_name VARCHAR(1000) NOT NULL,
  server LONGTEXT, -- who holds it; NULL, like the next two, once it was released
  since DATETIME(6),
  `until` DATETIME(6),
  version VARCHAR(64) NOT NULL,
  fence BIGINT NOT NULL,
  state LONGTEXT NOT NULL, -- JSON in ASCII: what the servers decide by
  expires DATETIME(6), -- when the row may be removed; NULL if a job has the key
  PRIMARY KEY (namespace, job_name),
  KEY job_lock_expires (expires)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET ascii COLLATE ascii_bin;

-- The newest lease of each key. Only a new lease changes a row, so that a transaction of the application can check and lock it
-- while the lease is extended.
CREATE TABLE IF NOT EXISTS job_fence (
  namespace VARCHAR(128) NOT NULL,
  job_name VARCHAR(1000) NOT NULL,
  fence BIGINT NOT NULL,
  token TEXT NOT NULL,
  finished_at DATETIME(6), -- when a transaction committed its work with the lease
  done_until DATETIME(6), -- until when work that is done once counts as done
  PRIMARY KEY (namespace, job_name),
  CONSTRAINT job_fence_of_key FOREIGN KEY (namespace, job_name)
    REFERENCES job_lock (namespace, job_name) ON DELETE CASCADE
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET ascii COLLATE ascii_bin;

-- The newest runs that ended, and the newest ticks that were skipped.
CREATE TABLE IF NOT EXISTS job_record (
  id BIGINT NOT NULL AUTO_INCREMENT,
  namespace VARCHAR(128) NOT NULL,
  job_name VARCHAR(1000) NOT NULL,
  kind VARCHAR(8) NOT NULL, -- run, skip
  tick DATETIME(6), -- NULL for a manual run
  server LONGTEXT NOT NULL,
  started DATETIME(6), -- NULL for a skip
  ended DATETIME(6) NOT NULL,
  outcome VARCHAR(64) NOT NULL, -- succeeded, failed and others; of a skip: held, paused, missed
  error LONGTEXT, -- with ? for characters outside ASCII
  record LONGTEXT NOT NULL, -- JSON in ASCII: all of it
  PRIMARY KEY (id),
  KEY job_record_newest (namespace, job_name, kind, id),
  CONSTRAINT job_record_of_key FOREIGN KEY (namespace, job_name)
    REFERENCES job_lock (namespace, job_name) ON DELETE CASCADE
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET ascii COLLATE ascii_bin;

-- Notes between servers: heartbeats, requests for manual runs.
CREATE TABLE IF NOT EXISTS job_note (
  namespace VARCHAR(128) NOT NULL,
  topic VARCHAR(16) NOT NULL, -- servers, requests
  name VARCHAR(1000) NOT NULL,
  content LONGTEXT NOT NULL, -- a JSON string in ASCII
  `until` DATETIME(6) NOT NULL,
  PRIMARY KEY (namespace, topic, name),
  KEY job_note_until (`until`)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET ascii COLLATE ascii_bin;

-- Fails if the tables were there and are not these.
SELECT version, state, expires FROM job_lock LIMIT 0;
