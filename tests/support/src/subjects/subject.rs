//! The store in memory under test, and the one on Redis.

use std::sync::Arc;

use jobs::clock::SystemClock;
use jobs::store::memory::MemoryStore;

pub use jobs::testing::store::{AccessFuture, ExternalAccess, Subject};

use crate::redis_server::RedisServer;
use crate::redis_subject;

/// A memory store of its own.
pub fn memory() -> std::future::Ready<Subject> {
    let store = MemoryStore::new(Arc::new(SystemClock));
    let same = store.clone();
    let subject = Subject::new(store.clone())
        .with_external_access(store)
        .with_namespaces(move |name| same.clone().with_namespace(name));
    std::future::ready(subject)
}

/// The same server with the settings of an application's client, which speaks RESP3 itself.
pub async fn redis_client() -> Subject {
    let server = RedisServer::shared();
    let client = redis::Client::open(format!("{}?protocol=resp3", server.url())).expect("a client");
    redis_subject::of_client(client, vec![server.client().await], server)
}

/// The shared Redis server, with a namespace of the test's own.
pub async fn redis() -> Subject {
    let server = RedisServer::shared();
    let (url, clients) = (server.url(), vec![server.client().await]);
    redis_subject::at(url, clients, Some(server))
}
