//! The other side: processes that want locks, and tell their parent what they get.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use jobs::Jobs;
use jobs::store::Store;
use jobs::testing::Intercept;
use redis::aio::MultiplexedConnection;

use super::witness::Witness;
use super::{ground, leader, leftovers, once, semaphore, waiting};
use support::worker::setting;

/// In a process that was started for it: does its part, and returns true.
pub fn begin() -> bool {
    let Some(role) = setting("ROLE") else { return false };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        match role.as_str() {
            "semaphore" => semaphore::process().await,
            "count, then add" => semaphore::naive_process().await,
            "candidate" => leader::process().await,
            "careless candidate" => leader::naive_process().await,
            "deliver" => once::process().await,
            "wait" => waiting::process().await,
            "hold" => leftovers::holder().await,
            "cancel" => leftovers::canceller().await,
            "forget" => leftovers::forgetter().await,
            role => panic!("no such role: {role}"),
        }
    });
    true
}

/// A scheduler that writes down what the store says about leases.
pub async fn witnessed() -> Jobs {
    start_as(ground::open_here(), Witness::new(true)).await
}

/// One that does not.
pub async fn start(store: Arc<dyn Store>) -> Jobs {
    start_as(store, Witness::new(false)).await
}

async fn start_as(store: Arc<dyn Store>, witness: Witness) -> Jobs {
    let store = Intercept::new(store, witness);
    let builder = jobs::builder().without_jobs().store(store).shutdown_grace(Duration::from_secs(2));
    builder.start_all().await.expect("the store is there")
}

/// A plain client of the test's Redis.
pub async fn client() -> MultiplexedConnection {
    let client = redis::Client::open(ground::url_here()).expect("a URL");
    // A process that was stopped is not told that it took too long.
    let patient = redis::AsyncConnectionConfig::new().set_response_timeout(None).set_connection_timeout(None);
    client.get_multiplexed_async_connection_with_config(&patient).await.expect("a connection")
}

pub fn random(below: u64) -> u64 {
    RandomState::new().hash_one(()) % below
}

pub async fn sleep_millis(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}
