//! Finds dangerous properties of a database and its folder.

use std::path::Path;

use rusqlite::Connection;

use super::database::journal_mode;
use super::errors::SqliteResult;
use super::requests::Requests;
use crate::observe::finding;
use crate::observe::finding::{Finding, FindingKind, LOOKED_AT};
use crate::store::file::diagnosis::{about_file_system, about_permissions};

/// Looks at the database, its files and the records of these jobs.
pub(super) fn look(
    requests: &Requests,
    database: &Connection,
    path: &Path,
    jobs: &[String],
) -> SqliteResult<Vec<Finding>> {
    if database.is_readonly("main")? {
        return Ok(vec![Finding::error(
            FindingKind::NotPrimary,
            "the database is read-only for this process, and cannot grant leases; give it write permission on the file, and \
             on its folder",
        )]);
    }
    let folder = path.parent().unwrap_or(path);
    let mut findings: Vec<_> =
        [about_file_system(folder, "database"), about_journal(&journal_mode(database)?)]
            .into_iter()
            .flatten()
            .collect();
    let open_to_others = about_permissions(folder, "database's folder");
    findings.extend(open_to_others.or_else(|| about_permissions(path, "database")));
    let looked_at = &jobs[..jobs.len().min(LOOKED_AT)];
    let unreadable = requests.unreadable(database, looked_at)?;
    findings.extend(finding::about_states(looked_at, jobs.len(), &unreadable));
    Ok(findings)
}

/// In the other modes nothing is lost, but readers and the writer wait for each other.
fn about_journal(mode: &str) -> Option<Finding> {
    (mode != "wal").then(|| {
        let message = format!(
            "the database's journal_mode is {mode}, and could not be changed to WAL: every look waits for every write, so \
             leases may be lost under load; use a local disk, and no other program that sets the mode"
        );
        Finding::warning(FindingKind::TooSlow, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_journal_modes_than_wal_are_reported() {
        assert_eq!(about_journal("wal"), None);
        assert_eq!(about_journal("delete").expect("a finding").kind, FindingKind::TooSlow);
    }
}
