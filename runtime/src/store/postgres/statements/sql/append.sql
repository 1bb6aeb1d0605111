-- Follows a swap: appends records if it was applied, and trims to what is to be kept beside them.
, appended AS (
  INSERT INTO $schema.job_record (namespace, job_name, kind, tick, server, started, ended, outcome, error, record)
  SELECT $1, $2, r.* FROM swapped, json_to_recordset($16::json) AS r (kind text, tick timestamptz, server text,
    started timestamptz, ended timestamptz, outcome text, error text, record text)
), trimmed AS (
  DELETE FROM $schema.job_record WHERE namespace = $1 AND job_name = $2 AND id = ANY (ARRAY(
    SELECT old.id FROM swapped, (VALUES ('run', $17), ('skip', $18)) AS k (kind, keep), LATERAL (
      SELECT id FROM $schema.job_record r WHERE namespace = $1 AND job_name = $2 AND r.kind = k.kind
      ORDER BY id DESC OFFSET k.keep
    ) AS old))
)
