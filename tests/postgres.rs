//! What only a PostgreSQL server brings with it: row locks, isolation levels, sessions that end, rights.

mod support;

#[path = "postgres/fleet.rs"]
mod fleet;
#[path = "postgres/listening.rs"]
mod listening;
#[path = "postgres/pool.rs"]
mod pool;
#[path = "postgres/races.rs"]
mod races;
#[path = "postgres/refusals.rs"]
mod refusals;
#[path = "postgres/sessions.rs"]
mod sessions;
#[path = "postgres/setup.rs"]
mod setup;
#[path = "postgres/slots.rs"]
mod slots;
#[path = "postgres/sweeping.rs"]
mod sweeping;

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use jobs::store::postgres::PostgresStore;
use jobs::store::{Claim, ClaimReply, Lease, Store, What};

use support::bench::{claim_now, lease};
use support::postgres_server::{PATIENCE, PostgresServer};

/// A name that no other test uses, for namespaces and schemas.
fn unused_name() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("own{}", COUNT.fetch_add(1, Ordering::Relaxed))
}

/// A store with a connection of its own.
fn open(server: &PostgresServer, namespace: &str) -> PostgresStore {
    open_url(&server.url(), namespace)
}

fn open_url(url: &str, namespace: &str) -> PostgresStore {
    PostgresStore::open(url, Some(namespace)).expect("a valid URL").with_timeouts(PATIENCE, PATIENCE)
}

/// A claim of a lock, of work that is done once, or of a slot.
fn claim_for(what: What, server: &str, ttl: Duration) -> Claim {
    Claim { what, ..claim_now(server, ttl) }
}

async fn claim_on(store: &PostgresStore, key: &str, claim: &Claim) -> ClaimReply {
    store.claim(key, claim).await.expect("claim").reply.decision
}

async fn win(store: &PostgresStore, key: &str, claim: &Claim) -> Lease {
    match claim_on(store, key, claim).await {
        ClaimReply::Won(won) => lease(claim, won),
        reply => panic!("the claim should have won, but: {reply:?}"),
    }
}
