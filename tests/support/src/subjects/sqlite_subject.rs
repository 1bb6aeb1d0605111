//! The SQLite store under test, on a file system without a disk where there is one.

use std::sync::Arc;

use jobs::store::sqlite::SqliteStore;

use crate::folder::TempFolder;
use crate::subject::Subject;

/// A database of its own, which is removed with the test.
pub fn sqlite() -> std::future::Ready<Subject> {
    let folder = Arc::new(TempFolder::in_memory());
    let path = folder.path().join("jobs.db");
    let open = {
        let path = path.clone();
        move |namespace: Option<&str>| {
            let _kept = &folder;
            SqliteStore::open(&path, namespace).expect("a database that can be written to")
        }
    };
    let subject = Subject::new(open(None))
        .without_notifications()
        .with_wipe(move |key| {
            let other_program = rusqlite::Connection::open(&path).expect("the same database");
            // The key's runs and skips go with its row.
            let sql = "DELETE FROM job_lock WHERE namespace = '' AND job_name = ?1";
            other_program.execute(sql, [key]).expect("the row is deleted");
            async {}
        })
        .with_namespaces(move |name| open(Some(name)));
    std::future::ready(subject)
}
