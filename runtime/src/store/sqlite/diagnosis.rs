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
    // Where the log is: beside the file, not beside a link to it.
    let path = &path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let folder = path.parent().unwrap_or(path);
    let about =
        [about_names(path), about_file_system(folder, "database"), about_journal(&journal_mode(database)?)];
    let mut findings: Vec<_> = about.into_iter().flatten().collect();
    let open_to_others = about_permissions(folder, "database's folder");
    findings.extend(open_to_others.or_else(|| about_permissions(path, "database")));
    let looked_at = &jobs[..jobs.len().min(LOOKED_AT)];
    let unreadable = requests.unreadable(database, looked_at)?;
    findings.extend(finding::about_states(looked_at, jobs.len(), &unreadable));
    Ok(findings)
}

/// The write-ahead log and its lock are beside the file, under the file's name: a file with two names has two of them, and each
/// process would see only the claims of those that use the same name.
fn about_names(path: &Path) -> Option<Finding> {
    #[cfg(unix)]
    let names = std::os::unix::fs::MetadataExt::nlink(&path.metadata().ok()?);
    #[cfg(not(unix))]
    let names = 1;
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let why = if names > 1 {
        format!("the database has {names} names (hard links)")
    } else if is_mounted(path, &mounts) {
        "the database is mounted as a single file".to_owned()
    } else {
        return None;
    };
    let message = format!(
        "{why}, and its write-ahead log is beside each of them: processes that use different ones do not see each other's claims, \
         so a tick can start twice; use one name, and mount the folder instead of the file"
    );
    Some(Finding::error(FindingKind::SeveralNames, message))
}

fn is_mounted(path: &Path, mounts: &str) -> bool {
    let places = mounts.lines().filter_map(|line| line.split(' ').nth(1));
    places.into_iter().any(|place| Path::new(&place.replace("\\040", " ")) == path)
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

    #[cfg(unix)]
    #[test]
    fn database_with_two_names_is_refused() {
        let folder = std::env::temp_dir().join(format!("sqlite-names-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (one, other) = (folder.join("one.db"), folder.join("other.db"));
        std::fs::write(&one, "").unwrap();
        assert_eq!(about_names(&one), None);
        std::fs::hard_link(&one, &other).unwrap();
        let finding = about_names(&one).expect("a finding");
        assert_eq!(finding.severity, crate::diagnosis::Severity::Error);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn database_that_is_mounted_as_a_file_is_found_among_the_mounts() {
        let mounts = "/dev/sda1 / ext4 rw 0 0\n/dev/sda1 /data/my\\040jobs.db ext4 rw 0 0\n";
        assert!(is_mounted(Path::new("/data/my jobs.db"), mounts));
        assert!(!is_mounted(Path::new("/data/other.db"), mounts));
    }

    #[test]
    fn other_journal_modes_than_wal_are_reported() {
        assert_eq!(about_journal("wal"), None);
        assert_eq!(about_journal("delete").expect("a finding").kind, FindingKind::TooSlow);
    }
}
