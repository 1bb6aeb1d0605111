//! What only a MySQL or MariaDB server brings with it: row locks, defaults of sessions, engines, replicas, rights.

mod commits;
mod crashes;
mod refusals;
mod settings;
mod swaps;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use jobs::store::mysql::MysqlStore;
use jobs::store::{Change, FenceChange, KeyState, Store, Swap, SwapReply, Swapped, Version};
use support::mariadb_server::MariadbServer;
use support::postgres_server::PATIENCE;
use support::server::random;

const KEY: &str = "import";

/// A namespace that no other test uses.
fn unused_name() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("own{}", COUNT.fetch_add(1, Ordering::Relaxed))
}

async fn shared() -> &'static MariadbServer {
    tokio::task::spawn_blocking(MariadbServer::shared).await.expect("a server")
}

async fn started_with(settings: &'static [&'static str]) -> MariadbServer {
    tokio::task::spawn_blocking(|| MariadbServer::start_with(settings)).await.expect("a server")
}

fn store_at(url: &str, namespace: &str) -> MysqlStore {
    MysqlStore::open(url, Some(namespace)).expect("a valid URL").with_timeouts(PATIENCE, PATIENCE)
}

/// A swap that begins a new lease.
fn swap_from(expected: Option<Version>) -> Swap {
    let state = Arc::new(KeyState { expires: None, ..KeyState::default() });
    let change = Change { state: Some(state), fence: FenceChange::Next, ..Change::default() };
    Swap { expected, expected_lock: None, nonce: random(), change }
}

async fn apply(store: &impl Store, swap: &Swap) -> Swapped {
    match store.swap(KEY, swap).await.expect("an answer") {
        SwapReply::Swapped(swapped) => swapped,
        refused @ SwapReply::Changed(_) => panic!("{refused:?}"),
    }
}
