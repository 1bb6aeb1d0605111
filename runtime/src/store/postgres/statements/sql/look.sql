-- $1 namespace, $2 key. One row, whether there is a record or not.
SELECT pg_is_in_recovery(), $clock, l.version, l.fence, l.state, $2, $finish
FROM (VALUES (1)) AS one LEFT JOIN $schema.job_lock l ON l.namespace = $1 AND l.job_name = $2 $mark
