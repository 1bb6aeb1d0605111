//! What could hurt about a PostgreSQL server.

use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error, Row};

use super::super::finding::{self, Finding, FindingKind, LOOKED_AT};
use super::super::model::FORMAT;

/// As this session has them: settings may differ by user and database.
const SETTINGS: &str = "SELECT
    pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on',
    current_setting('synchronous_commit') = 'off',
    current_setting('fsync') = 'off',
    current_setting('server_encoding')";

/// Looks at the server, and at the states of these jobs, in one round trip.
pub(super) async fn look(
    client: &Client,
    schema: &str,
    namespace: &str,
    jobs: &[String],
) -> Result<Vec<Finding>, Error> {
    let looked_at = &jobs[..jobs.len().min(LOOKED_AT)];
    let newer = format!(
        "SELECT job_name FROM \"{schema}\".job_lock WHERE namespace = $1 AND job_name = ANY ($2) AND format > $3 \
         ORDER BY job_name"
    );
    let format = i32::try_from(FORMAT).unwrap_or(i32::MAX);
    let arguments: [(&(dyn ToSql + Sync), Type); 3] =
        [(&namespace, Type::TEXT), (&looked_at, Type::TEXT_ARRAY), (&format, Type::INT4)];
    let (settings, newer) =
        tokio::join!(client.query_typed(SETTINGS, &[]), client.query_typed(&newer, &arguments));
    let mut findings = match settings?.first() {
        Some(row) => about_server(row)?,
        None => Vec::new(),
    };
    let unreadable: Vec<String> = newer?.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
    findings.extend(finding::about_states(looked_at, jobs.len(), &unreadable));
    Ok(findings)
}

fn about_server(row: &Row) -> Result<Vec<Finding>, Error> {
    let (read_only, asynchronous, unsafe_at_crash): (bool, bool, bool) =
        (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
    let encoding: String = row.try_get(3)?;
    if read_only {
        return Ok(vec![Finding::error(
            FindingKind::NotPrimary,
            "the PostgreSQL server is a standby, or read-only, and cannot decide who runs a job; point the URL to the primary",
        )]);
    }
    let harm = "a tick that has run may run once more within its grace";
    let asynchronous = asynchronous.then(|| {
        Finding::warning(
            FindingKind::NotDurable,
            format!(
                "PostgreSQL's synchronous_commit is off for this user and database: a crash can lose the newest claims, and then \
                 {harm}; set it to on"
            ),
        )
    });
    let unsafe_at_crash = unsafe_at_crash.then(|| {
        Finding::warning(
            FindingKind::NotDurable,
            format!("PostgreSQL's fsync is off: a crash of its machine can lose or damage everything, and then {harm}; set it to on"),
        )
    });
    let encoding = (encoding != "UTF8").then(|| {
        Finding::warning(
            FindingKind::Encoding,
            format!(
                "the PostgreSQL database's encoding is {encoding}: a run whose error or progress has other characters cannot be put on \
                 record; use a database with the encoding UTF8"
            ),
        )
    });
    Ok([asynchronous, unsafe_at_crash, encoding].into_iter().flatten().collect())
}
