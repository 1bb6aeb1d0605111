//! The store of the example `custom_store`, proved as any store of a team's own would be.

mod support;

#[path = "../examples/custom_store/sqlite_store.rs"]
mod sqlite_store;

use std::sync::Arc;

use jobs::testing::store::{Subject, random_operations};
use sqlite_store::SqliteStore;
use support::folder::TempFolder;

fn open() -> Subject {
    let folder = Arc::new(TempFolder::in_memory());
    let database = folder.path().join("jobs.db");
    let store = SqliteStore::open(&database).expect("a database");
    Subject::new(store).wiped_by(move |key| {
        let _kept = &folder;
        let behind_its_back = rusqlite::Connection::open(&database).expect("the same database");
        behind_its_back.execute("DELETE FROM job WHERE key = ?1", [key]).expect("the job is gone");
        async {}
    })
}

jobs::store_contract!(sqlite: async || open(), without lock, namespaces);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_answers_as_the_model_does() {
    random_operations(open(), 600).await;
}
