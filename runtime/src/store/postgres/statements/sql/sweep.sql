-- Keys that were made from data must not pile up. Skips rows that are in use, so there are no deadlocks. Work that a transaction
-- has marked as done stays: the mark is checked once more when its row is locked.
WITH notes AS (
  DELETE FROM $schema.job_note WHERE (namespace, topic, name) IN (
    SELECT namespace, topic, name FROM $schema.job_note WHERE until <= now() LIMIT 100 FOR UPDATE SKIP LOCKED)
), expired AS MATERIALIZED (
  SELECT l.namespace, l.job_name FROM $schema.job_lock l
  WHERE l.expires <= now() AND NOT EXISTS (SELECT FROM $schema.job_fence f
    WHERE f.namespace = l.namespace AND f.job_name = l.job_name AND f.done_until > now())
  ORDER BY l.expires LIMIT 100
  FOR UPDATE OF l SKIP LOCKED
), unmarked AS MATERIALIZED (
  SELECT f.namespace, f.job_name FROM $schema.job_fence f JOIN expired USING (namespace, job_name)
  WHERE f.done_until IS NULL OR f.done_until <= now()
  FOR UPDATE OF f SKIP LOCKED
)
DELETE FROM $schema.job_lock l USING expired e
WHERE l.namespace = e.namespace AND l.job_name = e.job_name AND (
  EXISTS (SELECT FROM unmarked u WHERE u.namespace = e.namespace AND u.job_name = e.job_name)
  OR NOT EXISTS (SELECT FROM $schema.job_fence f WHERE f.namespace = e.namespace AND f.job_name = e.job_name))
