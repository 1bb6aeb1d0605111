//! What only a SQLite database brings with it: a lock of the whole database, a file that can be replaced, tables to read.

mod columns;
mod files;
mod locking;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jobs::store::sqlite::SqliteStore;
use jobs::store::{Change, FenceChange, KeyState, Store, Swap, SwapReply, Swapped, Version};
use support::folder::TempFolder;
use support::server::random;

const KEY: &str = "import";

/// A database of the test's own.
struct TestDatabase {
    _folder: TempFolder,
    path: PathBuf,
}

impl TestDatabase {
    fn new() -> Self {
        let folder = TempFolder::in_memory();
        Self { path: folder.path().join("jobs.db"), _folder: folder }
    }

    fn open(&self) -> SqliteStore {
        SqliteStore::open(&self.path, None).expect("a database")
    }

    /// A connection of another program.
    fn other_program(&self) -> rusqlite::Connection {
        let connection = rusqlite::Connection::open(&self.path).expect("the same database");
        connection.busy_timeout(Duration::from_secs(5)).expect("a setting");
        connection
    }
}

/// A swap that begins a new lease.
fn swap_from(expected: Option<Version>) -> Swap {
    let change = Change {
        state: Some(Arc::new(KeyState { expires: None, ..KeyState::default() })),
        fence: FenceChange::Next,
        ..Change::default()
    };
    Swap { expected, expected_lock: None, nonce: random(), change }
}

async fn apply(store: &impl Store, swap: &Swap) -> Swapped {
    match store.swap(KEY, swap).await.expect("an answer") {
        SwapReply::Swapped(swapped) => swapped,
        refused @ SwapReply::Changed(_) => panic!("{refused:?}"),
    }
}
