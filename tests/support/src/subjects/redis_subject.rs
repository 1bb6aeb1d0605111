//! The Redis store under test, however it is deployed, and what other programs do to its keys.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use jobs::Timestamp;
use jobs::store::StoreError;
use jobs::store::redis::RedisStore;
use redis::aio::MultiplexedConnection;
use redis::{ErrorKind, FromRedisValue, ServerErrorKind};

use crate::redis_server::{PATIENCE, RedisServer};
use crate::subject::{AccessFuture, ExternalAccess, Subject};

/// The store at a URL, with a namespace of the test's own; the clients are plain ones of all nodes that may have a key.
pub fn at(url: String, clients: Vec<MultiplexedConnection>, server: Option<Arc<RedisServer>>) -> Subject {
    of(move |namespace| RedisStore::open(&url, Some(namespace)), clients, server)
}

/// The store with the settings of an application's client.
pub fn of_client(
    client: redis::Client,
    clients: Vec<MultiplexedConnection>,
    server: Arc<RedisServer>,
) -> Subject {
    of(move |namespace| RedisStore::from_client(client.clone(), Some(namespace)), clients, Some(server))
}

fn of(
    open: impl Fn(&str) -> Result<RedisStore, StoreError> + Send + Sync + 'static,
    clients: Vec<MultiplexedConnection>,
    server: Option<Arc<RedisServer>>,
) -> Subject {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let namespace = format!("test{}", COUNT.fetch_add(1, Ordering::Relaxed));
    let open = move |namespace: &str| open(namespace).expect("a store").with_timeouts(PATIENCE, PATIENCE);
    let prefix = namespace.clone();
    Subject::new(open(&namespace))
        .with_external_access(Outside { clients, namespace, _server: server })
        .with_namespaces(move |name| open(&format!("{prefix}.{name}")))
}

struct Outside {
    clients: Vec<MultiplexedConnection>,
    namespace: String,
    /// Kept while the test runs.
    _server: Option<Arc<RedisServer>>,
}

impl Outside {
    fn lock_key(&self, key: &str) -> String {
        format!("{}:lock:{key}", self.namespace)
    }

    /// Runs the command on the node that does not send it elsewhere.
    async fn run<T: FromRedisValue>(&self, command: &redis::Cmd) -> T {
        for client in &self.clients {
            match command.query_async(&mut client.clone()).await {
                Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::Moved) => {}
                answer => return answer.expect("the node answers"),
            }
        }
        panic!("no node has the key of {command:?}");
    }
}

impl ExternalAccess for Outside {
    fn lock<'a>(&'a self, key: &'a str) -> AccessFuture<'a, Option<String>> {
        Box::pin(async move { self.run(redis::cmd("GET").arg(self.lock_key(key))).await })
    }

    fn set_lock<'a>(&'a self, key: &'a str, token: &'a str, until: Option<Timestamp>) -> AccessFuture<'a> {
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

    fn remove_lock<'a>(&'a self, key: &'a str) -> AccessFuture<'a> {
        Box::pin(async move { self.run(redis::cmd("DEL").arg(self.lock_key(key))).await })
    }

    fn wipe<'a>(&'a self, key: &'a str) -> AccessFuture<'a> {
        let lock = self.lock_key(key);
        let parts = ["state", "runs", "skips"].map(|part| format!("{{{lock}}}:{part}"));
        Box::pin(async move { self.run(redis::cmd("DEL").arg(lock).arg(&parts)).await })
    }
}
