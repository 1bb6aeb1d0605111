//! What only a PostgreSQL server brings with it: row locks, isolation levels, sessions that end, rights, encodings.

mod answers;
mod columns;
mod fleet;
mod races;
mod refusals;
mod setup;
mod slots;
mod swaps;
mod sweeping;

mod connections {
    mod listening;
    mod pool;
    mod sessions;
}

use std::sync::atomic::{AtomicU32, Ordering};

use jobs::store::postgres::PostgresStore;
use jobs::store::{Claim, ClaimDecision, Lease};
use jobs::testing::store::Client;

use support::postgres_server::{PATIENCE, PostgresServer};

/// What a session's transactions may begin as: parameters of a URL.
const ISOLATION_LEVELS: [&str; 3] = [
    "options=-c%20default_transaction_isolation%3Dread%5C%20committed",
    "options=-c%20default_transaction_isolation%3Drepeatable%5C%20read",
    "options=-c%20default_transaction_isolation%3Dserializable",
];

/// A name that no other test uses, for namespaces and schemas.
fn unused_name() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("own{}", COUNT.fetch_add(1, Ordering::Relaxed))
}

/// A store with a connection of its own.
fn store_at(url: &str, namespace: &str) -> PostgresStore {
    PostgresStore::open(url, Some(namespace)).expect("a valid URL").with_timeouts(PATIENCE, PATIENCE)
}

/// A server's way to such a store.
fn open_url(url: &str, namespace: &str) -> Client {
    Client::new(store_at(url, namespace))
}

fn open(server: &PostgresServer, namespace: &str) -> Client {
    open_url(&server.url(), namespace)
}

async fn claim_on(client: &Client, key: &str, claim: &Claim) -> ClaimDecision {
    client.claim(key, claim).await.expect("claim").reply.decision
}

async fn win(client: &Client, key: &str, claim: &Claim) -> Lease {
    match claim_on(client, key, claim).await {
        ClaimDecision::Won(won) => won.lease,
        reply => panic!("the claim should have won, but: {reply:?}"),
    }
}
