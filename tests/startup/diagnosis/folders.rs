//! Folders on a disk, in memory, open to everybody.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use jobs::diagnosis::{FindingKind, Severity};
use jobs::store::file::FileStore;

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
