-- Follows a swap: writes the newest lease, for transactions of the application to check. No transaction has an empty token.
, fenced AS (
  INSERT INTO $schema.job_fence (namespace, job_name, fence, token)
  SELECT $1, $2, fence, $10 FROM swapped WHERE $10 IS NOT NULL
  ON CONFLICT (namespace, job_name) DO UPDATE
  SET fence = excluded.fence, token = excluded.token, finished_at = NULL, done_until = NULL
)
