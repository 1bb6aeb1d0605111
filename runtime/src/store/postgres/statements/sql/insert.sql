-- Inserts and deletes of a key take turns, so that a fence is never taken from a clock that was read before the last
-- record of the key was deleted.
WITH turn AS MATERIALIZED (
  SELECT pg_advisory_xact_lock(hashtextextended($1 || '/' || $2, 0))
), clock AS MATERIALIZED (
  SELECT 0::bigint AS fence, $clock AS now FROM turn
), inserted AS (
  INSERT INTO $schema.job_lock (namespace, job_name, version, fence, server, since, until, state, expires)
  SELECT $1, $2, now || '-' || $4, $fence, $11, $12::timestamptz, $13::timestamptz, $14, $15::timestamptz
  FROM clock c
  WHERE now BETWEEN $5 AND $6
  ON CONFLICT DO NOTHING
  RETURNING fence
), swapped AS (
  SELECT clock.now, inserted.fence FROM inserted, clock
)
