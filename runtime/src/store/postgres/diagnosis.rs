//! Finds dangerous settings of a PostgreSQL server, and records that this version cannot read.

use super::super::{FORMAT, KeyState, to_ascii_json};
use super::PostgresStore;
use super::connection::TextRow as Row;
use super::errors::Result;
use super::statements::Statement;
use super::statements::prepared::text;
use super::statements::reply;
use crate::observe::finding;
use crate::observe::finding::{Finding, FindingKind, LOOKED_AT};

/// The settings of this session: they may differ by user and database.
const SETTINGS: &str = "SELECT
    current_setting('server_version_num')::integer,
    current_setting('server_version'),
    pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on',
    current_setting('synchronous_commit') = 'off',
    current_setting('fsync') = 'off'";

/// PostgreSQL 12: the first one with `AS MATERIALIZED`.
const OLDEST: i32 = 120_000;

impl PostgresStore {
    /// Looks at the server, then at the states of these jobs.
    pub(super) async fn findings(&self, jobs: &[String]) -> Result<Vec<Finding>> {
        let settings = Statement::plain(SETTINGS.to_owned());
        let about_server = |rows: &[Row]| about_server(reply::first(rows)?);
        let mut findings = self.tables.ask(settings.with(&[]), about_server).await?;
        if findings.iter().any(|finding| finding.severity == finding::Severity::Error) {
            return Ok(findings);
        }
        let looked_at = &jobs[..jobs.len().min(LOOKED_AT)];
        let [more, nothing_more] = [format!("{{\"format\":{FORMAT},%"), format!("{{\"format\":{FORMAT}}}")];
        let keys = to_ascii_json(&looked_at);
        let parameters = [&*self.namespace, &*keys, &*more, &*nothing_more].map(text);
        let unreadable =
            self.tables.ask(self.statements.unreadable.with(&parameters), unreadable_keys).await?;
        findings.extend(finding::about_states(looked_at, jobs.len(), &unreadable));
        Ok(findings)
    }
}

/// The keys of those states that really cannot be read.
fn unreadable_keys(rows: &[Row]) -> Result<Vec<String>> {
    let mut keys = Vec::new();
    for row in rows {
        if KeyState::from_json(reply::text(row, 1)?.unwrap_or_default()).is_err() {
            keys.push(reply::column(row, 0)?);
        }
    }
    Ok(keys)
}

fn about_server(row: &Row) -> Result<Vec<Finding>> {
    let is = |index| reply::is_true(row, index);
    if let Some(finding) = too_old(reply::column(row, 0)?, reply::text(row, 1)?.unwrap_or_default()) {
        return Ok(vec![finding]);
    }
    if is(2)? {
        return Ok(vec![Finding::error(
            FindingKind::NotPrimary,
            "the PostgreSQL server is a standby, or read-only, and cannot grant leases; point the URL to the primary",
        )]);
    }
    let faults = [
        (is(3)?, "synchronous_commit is off for this user and database: a crash can lose the newest claims"),
        (is(4)?, "fsync is off: a crash of its machine can lose or damage everything"),
    ];
    let warning = |fault: &str| {
        let harm = "a tick that has run may run once more within its grace";
        let message = format!("PostgreSQL's {fault}, and then {harm}; set it to on");
        Finding::warning(FindingKind::NotDurable, message)
    };
    Ok(faults.iter().filter(|(is_so, _)| *is_so).map(|(_, fault)| warning(fault)).collect())
}

fn too_old(number: i32, version: &str) -> Option<Finding> {
    (number < OLDEST).then(|| {
        let message =
            format!("this server is PostgreSQL {version}, which is too old; use PostgreSQL 12 or newer");
        Finding::error(FindingKind::TooOld, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_that_is_too_old_is_named_with_its_version() {
        assert_eq!(too_old(120_000, "12.0"), None);
        let finding = too_old(110_022, "11.22 (Debian 11.22-1)").expect("too old");
        assert_eq!(finding.kind, FindingKind::TooOld);
        assert_eq!(
            finding.message,
            "this server is PostgreSQL 11.22 (Debian 11.22-1), which is too old; use PostgreSQL 12 or newer"
        );
    }
}
