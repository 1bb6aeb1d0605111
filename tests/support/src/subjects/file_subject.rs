//! The file store under test, on a file system without a disk where there is one.

use std::sync::Arc;

use jobs::store::file::FileStore;

use crate::folder::TempFolder;
use crate::subject::Subject;

fn open(folder: &TempFolder, namespace: Option<&str>) -> FileStore {
    FileStore::open(folder.path(), namespace).expect("a folder that can be written to")
}

/// A folder of its own, which is removed with the test.
pub fn file() -> std::future::Ready<Subject> {
    let folder = Arc::new(TempFolder::in_memory());
    let store = open(&folder, None);
    let wiped = store.clone();
    let subject = Subject::new(store)
        .without_notifications()
        .with_wipe(move |key| {
            let removed = std::fs::remove_file(wiped.state_file(&key));
            if let Err(error) = removed {
                assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{error}");
            }
            async {}
        })
        .with_namespaces(move |name| open(&folder, Some(name)));
    std::future::ready(subject)
}
