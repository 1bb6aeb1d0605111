-- The row is locked first, so that the clock is not read before a wait.
WITH held AS MATERIALIZED (
  SELECT fence FROM $schema.job_lock
  WHERE namespace = $1 AND job_name = $2 AND version = $3 FOR UPDATE
), clock AS MATERIALIZED (
  SELECT fence, $clock AS now FROM held
), swapped AS (
  UPDATE $schema.job_lock l SET version = now || '-' || $4, fence = $fence,
    server = $9, since = $10::timestamptz, until = $11::timestamptz, state = $12, expires = $13::timestamptz
  FROM clock c
  WHERE l.namespace = $1 AND l.job_name = $2 AND l.version = $3 AND now BETWEEN $5 AND $6
  RETURNING now, l.fence
)
