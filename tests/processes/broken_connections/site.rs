//! Where a fault happens: a real server, the broken way to it, and the way around.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use jobs::store::Store;
use jobs::store::postgres::PostgresStore;
use jobs::store::redis::RedisStore;
use jobs::testing::store::Client;
use tokio::sync::OnceCell;

use support::pooler::Pooler;
use support::postgres_server::PostgresServer;
use support::proxy::Proxy;
use support::redis_server::{PATIENCE, RedisServer};

/// How long a step may take before its caller gives up.
const RESPONSE: Duration = Duration::from_millis(400);
/// When what is late arrives: its caller has given up, and asked again.
const LATE: Duration = Duration::from_millis(900);

#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Redis,
    Postgres,
    Pooled,
    /// A schema in which the tables and functions are not made yet.
    Unmade,
}

/// One case's own: its server or its namespace, and its proxy.
pub struct Site {
    kind: Kind,
    pub namespace: String,
    pub proxy: Proxy,
    port: u16,
    patience: Duration,
    /// A server that knows no script yet.
    _redis: Option<RedisServer>,
}

impl Site {
    pub async fn new(kind: Kind) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let namespace = format!("site{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let start = || RedisServer::start_with(&["--requirepass", "secret"]);
        let redis = match kind {
            Kind::Redis => Some(tokio::task::spawn_blocking(start).await.expect("a server")),
            _ => None,
        };
        let port = match (kind, &redis) {
            (Kind::Redis, Some(redis)) => redis.port(),
            (Kind::Pooled, _) => {
                guarded_postgres().await;
                tokio::task::spawn_blocking(|| Pooler::shared().port()).await.expect("a pooler")
            }
            _ => guarded_postgres().await.port(),
        };
        let proxy = Proxy::before(port, LATE).await;
        Self { kind, namespace, proxy, port, patience: RESPONSE, _redis: redis }
    }

    /// Where nothing is going to break, and a busy machine is no reason to give up.
    pub async fn peaceful(kind: Kind) -> Self {
        Self { patience: PATIENCE, ..Self::new(kind).await }
    }

    /// Every word of a connection's set-up is needed: a password, and another database than the first.
    pub fn url(&self, port: u16) -> String {
        match self.kind {
            Kind::Redis => format!("redis://:secret@127.0.0.1:{port}/1"),
            Kind::Postgres => format!("postgres://known:secret@127.0.0.1:{port}/postgres"),
            Kind::Unmade => {
                format!("postgres://known:secret@127.0.0.1:{port}/postgres?schema={}", self.namespace)
            }
            Kind::Pooled => format!("postgres://postgres@127.0.0.1:{port}/postgres"),
        }
    }

    /// The server's own address.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// A client that has no connection yet, and will make it through the proxy.
    pub fn through(&self) -> Client {
        Client::of(self.open(self.proxy.port(), self.patience))
    }

    /// A client that goes around the proxy.
    pub fn around(&self) -> Client {
        Client::of(self.open(self.port, PATIENCE))
    }

    fn open(&self, port: u16, patience: Duration) -> Arc<dyn Store> {
        let (url, namespace) = (self.url(port), Some(self.namespace.as_str()));
        match self.kind {
            Kind::Redis => {
                let store = RedisStore::open(&url, namespace).expect("a URL");
                Arc::new(store.with_timeouts(patience, patience))
            }
            Kind::Postgres | Kind::Pooled | Kind::Unmade => {
                let store = PostgresStore::open(&url, namespace).expect("a URL");
                Arc::new(store.with_timeouts(patience, patience))
            }
        }
    }
}

/// The shared server, with a user who needs a password: its connection is set up in several turns.
async fn guarded_postgres() -> &'static PostgresServer {
    static GUARDED: OnceCell<&PostgresServer> = OnceCell::const_new();
    let guarded = GUARDED.get_or_init(async || {
        let server = tokio::task::spawn_blocking(PostgresServer::shared).await.expect("a server");
        let create = "CREATE ROLE known LOGIN SUPERUSER PASSWORD 'secret'";
        server.client().await.batch_execute(create).await.expect(create);
        let tables =
            PostgresStore::open(&server.url(), None).expect("a URL").with_timeouts(PATIENCE, PATIENCE);
        tables.look("any").await.expect("tables are made");
        server
    });
    guarded.await
}
