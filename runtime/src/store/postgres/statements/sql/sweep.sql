-- Keys that were made from data must not pile up. Skips rows that are in use, so there are no deadlocks.
WITH notes AS (
  DELETE FROM $schema.job_note WHERE (namespace, topic, name) IN (
    SELECT namespace, topic, name FROM $schema.job_note WHERE until <= now() LIMIT 100 FOR UPDATE SKIP LOCKED)
)
DELETE FROM $schema.job_lock WHERE (namespace, job_name) IN (
  SELECT namespace, job_name FROM $schema.job_lock
  WHERE expires <= now() ORDER BY expires LIMIT 100
  FOR UPDATE SKIP LOCKED)
