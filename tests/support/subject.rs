//! The stores in memory and on Redis under test, and the hands that reach into them behind their backs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use jobs::Timestamp;
use jobs::clock::SystemClock;
use jobs::store::memory::MemoryStore;
use jobs::store::model::{Lock, State};
use jobs::store::redis::RedisStore;
use redis::aio::MultiplexedConnection;

pub use jobs::testing::store::{Subject, Tamper, Tampering};

use super::redis_server::{PATIENCE, RedisServer};

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
        let read =
            |state: &mut State| state.lock.clone().filter(|lock| !expired(lock)).map(|lock| lock.token);
        Box::pin(std::future::ready(self.0.tamper(key, read)))
    }

    fn set_lock<'a>(&'a self, key: &'a str, token: &'a str, until: Option<Timestamp>) -> Tampering<'a> {
        let lock = Lock { token: token.to_owned(), until };
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
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let namespace = format!("test{}", COUNT.fetch_add(1, Ordering::Relaxed));
    let server = RedisServer::shared();
    let url = server.url();
    let open = move |namespace: &str| {
        let store = RedisStore::open(&url, Some(namespace)).expect("a valid URL");
        store.with_timeouts(PATIENCE, PATIENCE)
    };
    let (store, prefix) = (open(&namespace), namespace.clone());
    Subject::new(store)
        .tampered_by(RedisHand { client: server.client().await, namespace, _server: server })
        .namespaced_by(move |name| open(&format!("{prefix}.{name}")))
}

struct RedisHand {
    client: MultiplexedConnection,
    namespace: String,
    _server: Arc<RedisServer>,
}

impl RedisHand {
    fn lock_key(&self, key: &str) -> String {
        format!("{}:lock:{key}", self.namespace)
    }

    async fn run<T: redis::FromRedisValue>(&self, command: &redis::Cmd) -> T {
        command.query_async(&mut self.client.clone()).await.expect("the shared server answers")
    }
}

impl Tamper for RedisHand {
    fn lock<'a>(&'a self, key: &'a str) -> Tampering<'a, Option<String>> {
        Box::pin(async move { self.run(redis::cmd("GET").arg(self.lock_key(key))).await })
    }

    fn set_lock<'a>(&'a self, key: &'a str, token: &'a str, until: Option<Timestamp>) -> Tampering<'a> {
        Box::pin(async move {
            let mut set = redis::cmd("SET");
            set.arg(self.lock_key(key)).arg(token);
            if let Some(until) = until {
                // Redis keeps a key up to and including the millisecond it is told.
                set.arg("PXAT").arg(until.as_micros() / 1000 - 1);
            }
            let () = self.run(&set).await;
        })
    }

    fn remove_lock<'a>(&'a self, key: &'a str) -> Tampering<'a> {
        Box::pin(async move { self.run(redis::cmd("DEL").arg(self.lock_key(key))).await })
    }

    fn wipe<'a>(&'a self, key: &'a str) -> Tampering<'a> {
        let lock = self.lock_key(key);
        let parts = ["state", "runs", "skips"].map(|part| format!("{{{lock}}}:{part}"));
        Box::pin(async move { self.run(redis::cmd("DEL").arg(lock).arg(&parts)).await })
    }
}
