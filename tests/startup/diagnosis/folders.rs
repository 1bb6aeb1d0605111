//! Folders and databases on a disk, in memory, open to everybody.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use jobs::diagnosis::{FindingKind, Severity};
use jobs::store::file::FileStore;
use jobs::store::sqlite::SqliteStore;

use super::{found_by, only};

/// A folder on the disk where this is built, gone with the test.
struct OnDisk(PathBuf);

impl OnDisk {
    fn new(name: &str) -> Self {
        let folder =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("diagnosis-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        Self(folder)
    }
}

impl Drop for OnDisk {
    fn drop(&mut self) {
        let _best_effort = std::fs::remove_dir_all(&self.0);
    }
}

#[tokio::test]
async fn a_folder_on_a_disk_gives_no_finding() {
    let folder = OnDisk::new("healthy");
    assert_eq!(found_by(&FileStore::open(&folder.0, None).unwrap(), &["import"]).await, []);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn folder_in_memory_is_reported() {
    let folder = support::folder::TempFolder::in_memory();
    assert!(
        folder.path().starts_with("/dev/shm"),
        "there is no file system in memory at /dev/shm: mount one"
    );
    let findings = found_by(&FileStore::open(folder.path(), None).unwrap(), &[]).await;
    only(&findings, FindingKind::NotDurable, Severity::Warning, &["in memory (tmpfs)", "a folder on a disk"]);
}

#[tokio::test]
async fn world_writable_folder_is_reported() {
    let folder = OnDisk::new("open");
    std::fs::set_permissions(&folder.0, Permissions::from_mode(0o777)).expect("our own folder");
    let findings = found_by(&FileStore::open(&folder.0, None).unwrap(), &[]).await;
    only(&findings, FindingKind::OpenToOthers, Severity::Warning, &["chmod o-w"]);
}

#[tokio::test]
async fn states_that_cannot_be_read_are_named() {
    let folder = OnDisk::new("newer");
    let store = FileStore::open(&folder.0, None).unwrap();
    std::fs::write(store.state_file("newer"), r#"{"format":4}"#).expect("a file");
    std::fs::write(store.state_file("damaged"), "").expect("a file");
    let findings = found_by(&store, &["damaged", "import", "newer"]).await;
    only(&findings, FindingKind::Unreadable, Severity::Warning, &["the state of damaged, newer was"]);
}

#[tokio::test]
async fn database_on_a_disk_gives_no_finding_and_one_that_is_open_to_all_does() {
    let folder = OnDisk::new("database");
    let path = folder.0.join("jobs.db");
    let store = SqliteStore::open(&path, None).unwrap();
    assert_eq!(found_by(&store, &["import"]).await, []);
    std::fs::set_permissions(&path, Permissions::from_mode(0o666)).expect("our own file");
    let findings = found_by(&store, &[]).await;
    only(&findings, FindingKind::OpenToOthers, Severity::Warning, &["the store's database,", "chmod o-w"]);
    std::fs::set_permissions(&path, Permissions::from_mode(0o644)).expect("our own file");
    std::fs::set_permissions(&folder.0, Permissions::from_mode(0o777)).expect("our own folder");
    let findings = found_by(&store, &[]).await;
    only(
        &findings,
        FindingKind::OpenToOthers,
        Severity::Warning,
        &["the store's database's folder", "chmod o-w"],
    );
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn database_in_memory_is_reported() {
    let folder = support::folder::TempFolder::in_memory();
    let findings = found_by(&SqliteStore::open(folder.path().join("jobs.db"), None).unwrap(), &[]).await;
    only(
        &findings,
        FindingKind::NotDurable,
        Severity::Warning,
        &["in memory (tmpfs)", "a database on a disk"],
    );
}

#[tokio::test]
async fn database_that_another_program_took_out_of_wal_mode_is_reported() {
    let folder = OnDisk::new("journal");
    let path = folder.0.join("jobs.db");
    let store = SqliteStore::open(&path, None).unwrap();
    drop(store);
    let other = rusqlite::Connection::open(&path).unwrap();
    // A reader that stays keeps the store from changing it back.
    other.pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(())).expect("another mode");
    other.execute_batch("BEGIN; SELECT count(*) FROM job_lock").expect("a reader");
    let error = SqliteStore::open(&path, None).err();
    assert!(error.is_some_and(|error| error.to_string().contains("kept the database locked")));
    other.execute_batch("COMMIT").expect("an end");
    let store = SqliteStore::open(&path, None).unwrap();
    assert_eq!(found_by(&store, &[]).await, []);
}
