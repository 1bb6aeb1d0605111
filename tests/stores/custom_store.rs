//! The store of the example `custom_store`, proved as every other store is.

#[path = "../../examples/custom_store/sqlite_store.rs"]
mod sqlite_store;

use std::sync::Arc;

use jobs::testing::store::{Subject, random_operations};
use sqlite_store::SqliteStore;
use support::folder::TempFolder;

fn open() -> Subject {
    let folder = Arc::new(TempFolder::in_memory());
    let database = folder.path().join("jobs.db");
    let store = SqliteStore::open(&database).expect("a database");
    Subject::new(store).without_notifications().with_wipe(move |key| {
        let _kept = &folder;
        let other_connection = rusqlite::Connection::open(&database).expect("the same database");
        other_connection.execute("DELETE FROM job WHERE key = ?1", [key]).expect("the record is deleted");
        async {}
    })
}

jobs::store_contract!(sqlite: async || open(), without lock, namespaces, notifications);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_store_agrees_with_the_reference_record() {
    random_operations(open(), 600).await;
}
