//! A store under test, and a hand that reaches into it behind its back.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use jobs::Timestamp;
use jobs::clock::SystemClock;
use jobs::store::Store;
use jobs::store::memory::MemoryStore;
use jobs::store::model::{Lock, State};
use jobs::store::redis::RedisStore;
use redis::aio::MultiplexedConnection;

use super::redis_server::{PATIENCE, RedisServer};

/// A store under test.
#[derive(Clone)]
pub struct Subject {
    /// The store, with keys that no other test sees.
    pub store: Arc<dyn Store>,
    /// What happens to it from outside.
    pub tamper: Arc<dyn Tamper>,
    /// The same store with the keys of a namespace.
    pub in_namespace: Arc<Opener>,
}

/// Opens a store with the keys of a namespace.
pub type Opener = dyn Fn(&str) -> Arc<dyn Store> + Send + Sync;

pub type Tampering<'a, T = ()> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What operators, evictions, failovers and other programs do to a store.
pub trait Tamper: Send + Sync {
    /// The token in the lock, as other programs see it.
    fn lock<'a>(&'a self, key: &'a str) -> Tampering<'a, Option<String>>;

    /// Sets the lock, whoever holds it, up to an instant in whole milliseconds or for ever.
    fn set_lock<'a>(&'a self, key: &'a str, token: &'a str, until: Option<Timestamp>) -> Tampering<'a>;

    /// The lock vanishes, as by an eviction or by hand.
    fn remove_lock<'a>(&'a self, key: &'a str) -> Tampering<'a>;

    /// The store forgets everything about the key.
    fn wipe<'a>(&'a self, key: &'a str) -> Tampering<'a>;
}

/// A memory store of its own.
pub fn memory() -> std::future::Ready<Subject> {
    let store = MemoryStore::new(Arc::new(SystemClock));
    let same = store.clone();
    std::future::ready(Subject {
        store: Arc::new(store.clone()),
        tamper: Arc::new(store),
        in_namespace: Arc::new(move |name| Arc::new(same.clone().with_namespace(name))),
    })
}

impl Tamper for MemoryStore {
    fn lock<'a>(&'a self, key: &'a str) -> Tampering<'a, Option<String>> {
        let expired = |lock: &Lock| lock.until.is_some_and(|until| until <= Timestamp::now());
        let read =
            |state: &mut State| state.lock.clone().filter(|lock| !expired(lock)).map(|lock| lock.token);
        Box::pin(std::future::ready(self.tamper(key, read)))
    }

    fn set_lock<'a>(&'a self, key: &'a str, token: &'a str, until: Option<Timestamp>) -> Tampering<'a> {
        let lock = Lock { token: token.to_owned(), until };
        self.tamper(key, |state| state.lock = Some(lock));
        Box::pin(std::future::ready(()))
    }

    fn remove_lock<'a>(&'a self, key: &'a str) -> Tampering<'a> {
        self.tamper(key, |state| state.lock = None);
        Box::pin(std::future::ready(()))
    }

    fn wipe<'a>(&'a self, key: &'a str) -> Tampering<'a> {
        self.tamper(key, |state| *state = State::default());
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
    Subject {
        store: Arc::new(open(&namespace)),
        in_namespace: Arc::new({
            let namespace = namespace.clone();
            move |name| Arc::new(open(&format!("{namespace}.{name}")))
        }),
        tamper: Arc::new(RedisHand { client: server.client().await, namespace, _server: server }),
    }
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
        let parts = ["state", "runs", "skips", "slots", "awaited"].map(|part| format!("{{{lock}}}:{part}"));
        Box::pin(async move { self.run(redis::cmd("DEL").arg(lock).arg(&parts)).await })
    }
}
