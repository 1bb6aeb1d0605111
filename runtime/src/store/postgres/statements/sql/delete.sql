-- Takes turns with inserts of the key, and locks the row before it reads the clock. The key's records go with it.
WITH turn AS MATERIALIZED (
  SELECT pg_advisory_xact_lock(hashtextextended($1 || '/' || $2, 0))
), held AS MATERIALIZED (
  SELECT fence FROM turn, $schema.job_lock l
  WHERE namespace = $1 AND job_name = $2 AND version = $3 FOR UPDATE OF l
), mark AS MATERIALIZED (
  SELECT f.finished_at IS NOT NULL AND f.fence = held.fence AS finished FROM held, $schema.job_fence f
  WHERE $9 >= 0 AND f.namespace = $1 AND f.job_name = $2 FOR UPDATE OF f NOWAIT
), clock AS MATERIALIZED (
  SELECT fence, $clock AS now FROM held WHERE $9 < 0 OR $9 = (SELECT count(*) FROM mark WHERE finished)
), swapped AS (
  DELETE FROM $schema.job_lock l USING clock c
  WHERE l.namespace = $1 AND l.job_name = $2 AND l.version = $3 AND now BETWEEN $5 AND $6
  RETURNING now, $fence AS fence
)
