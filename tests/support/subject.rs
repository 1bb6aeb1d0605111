//! The store in memory under test, with the hand that reaches into it behind its back, and the one on Redis.

use std::sync::Arc;

use jobs::Timestamp;
use jobs::clock::SystemClock;
use jobs::store::memory::MemoryStore;
use jobs::store::model::{Lock, State};

pub use jobs::testing::store::{Subject, Tamper, Tampering};

use super::redis_server::RedisServer;
use super::redis_subject;

/// A memory store of its own.
pub fn memory() -> std::future::Ready<Subject> {
    let store = MemoryStore::new(Arc::new(SystemClock));
    let same = store.clone();
    let subject = Subject::new(store.clone())
        .tampered_by(MemoryHand(store))
        .namespaced_by(move |name| same.clone().with_namespace(name));
    std::future::ready(subject)
}

/// Reaches into a memory store that runs on the system's clock.
pub struct MemoryHand(pub MemoryStore);

impl Tamper for MemoryHand {
    fn lock<'a>(&'a self, key: &'a str) -> Tampering<'a, Option<String>> {
        let expired = |lock: &Lock| lock.until.is_some_and(|until| until <= Timestamp::now());
        let read = |state: &mut State| {
            state.lock.clone().filter(|lock| !expired(lock)).map(|lock| lock.token.to_string())
        };
        Box::pin(std::future::ready(self.0.tamper(key, read)))
    }

    fn set_lock<'a>(&'a self, key: &'a str, token: &'a str, until: Option<Timestamp>) -> Tampering<'a> {
        let lock = Lock { token: token.into(), until };
        self.0.tamper(key, |state| state.lock = Some(lock));
        Box::pin(std::future::ready(()))
    }

    fn remove_lock<'a>(&'a self, key: &'a str) -> Tampering<'a> {
        self.0.tamper(key, |state| state.lock = None);
        Box::pin(std::future::ready(()))
    }

    fn wipe<'a>(&'a self, key: &'a str) -> Tampering<'a> {
        self.0.tamper(key, |state| *state = State::default());
        Box::pin(std::future::ready(()))
    }
}

/// The shared Redis server, with a namespace of the test's own.
pub async fn redis() -> Subject {
    let server = RedisServer::shared();
    let (url, clients) = (server.url(), vec![server.client().await]);
    redis_subject::at(url, clients, Some(server))
}
