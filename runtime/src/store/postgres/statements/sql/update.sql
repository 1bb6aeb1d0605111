-- The row is locked first, so that the clock is not read before a wait. A swap that ends the lease locks the mark of a
-- transaction, too: $9 says whether the decision has seen one, or is negative if the swap leaves the lease. It does not wait for
-- a transaction of the application: that may take long, and other keys wait for this session.
WITH held AS MATERIALIZED (
  SELECT fence FROM $schema.job_lock
  WHERE namespace = $1 AND job_name = $2 AND version = $3 FOR UPDATE
), mark AS MATERIALIZED (
  SELECT f.finished_at IS NOT NULL AND f.fence = held.fence AS finished FROM held, $schema.job_fence f
  WHERE $9 >= 0 AND f.namespace = $1 AND f.job_name = $2 FOR UPDATE OF f NOWAIT
), clock AS MATERIALIZED (
  SELECT fence, $clock AS now FROM held WHERE $9 < 0 OR $9 = (SELECT count(*) FROM mark WHERE finished)
), swapped AS (
  UPDATE $schema.job_lock l SET version = now || '-' || $4, fence = $fence,
    server = $11, since = $12::timestamptz, until = $13::timestamptz, state = $14, expires = $15::timestamptz
  FROM clock c
  WHERE l.namespace = $1 AND l.job_name = $2 AND l.version = $3 AND now BETWEEN $5 AND $6
  RETURNING now, l.fence
)
