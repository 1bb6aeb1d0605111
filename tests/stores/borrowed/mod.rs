//! Stores over connections that the application lends: one for each request, which is returned as it was, or closed.

mod abandoned;
mod outages;
mod sessions;
mod transactions;
mod whole_servers;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use jobs::store::{Change, FenceChange, KeyState, Store, Swap, SwapReply, Swapped, Version};
use support::mariadb_server::MariadbServer;
use support::pools::{ApplicationPool, LentConnection, PoolKind};
use support::postgres_server::PostgresServer;
use support::server::random;

const KEY: &str = "import";

/// A table of the application.
const PAYMENTS: &str = "CREATE TABLE payment (id INT PRIMARY KEY)";

/// A namespace that no other test uses.
fn unused_name() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("lent{}", COUNT.fetch_add(1, Ordering::Relaxed))
}

/// The database of a pool.
enum Database {
    Postgres(PostgresServer),
    Mariadb(MariadbServer),
}

impl Database {
    /// A server of the test's own.
    async fn start(kind: PoolKind) -> Self {
        let start = move || {
            if kind.is_postgres() {
                Self::Postgres(PostgresServer::start())
            } else {
                Self::Mariadb(MariadbServer::start())
            }
        };
        tokio::task::spawn_blocking(start).await.expect("a server")
    }

    fn url(&self) -> String {
        match self {
            Self::Postgres(server) => server.url(),
            Self::Mariadb(server) => server.url(),
        }
    }

    fn port(&self) -> u16 {
        match self {
            Self::Postgres(server) => server.port(),
            Self::Mariadb(server) => server.port(),
        }
    }

    /// A connection of an administrator, which belongs to no pool of the test.
    async fn administrator(&self) -> LentConnection {
        let (kind, url) = match self {
            Self::Postgres(server) => (PoolKind::DeadpoolPostgres, server.url()),
            Self::Mariadb(server) => (PoolKind::MysqlAsync, server.url_of("admin")),
        };
        kind.pool(&url, 1).get().await
    }

    /// Kills the server, and starts it again.
    async fn restart(self) -> Self {
        let restart = || match self {
            Self::Postgres(mut server) => {
                server.restart();
                Self::Postgres(server)
            }
            Self::Mariadb(mut server) => {
                server.restart();
                Self::Mariadb(server)
            }
        };
        tokio::task::spawn_blocking(restart).await.expect("it starts again")
    }
}

/// A pool of so many connections to a server of the test's own.
async fn database_and_pool(kind: PoolKind, size: usize) -> (Database, ApplicationPool) {
    let database = Database::start(kind).await;
    let pool = kind.pool(&database.url(), size);
    (database, pool)
}

/// A swap that begins a new lease.
fn swap_from(expected: Option<Version>) -> Swap {
    let state = Arc::new(KeyState { expires: None, ..KeyState::default() });
    let change = Change { state: Some(state), fence: FenceChange::Next, ..Change::default() };
    Swap { expected, expected_lock: None, nonce: random(), change }
}

async fn apply(store: &dyn Store, swap: &Swap) -> Swapped {
    match store.swap(KEY, swap).await.expect("an answer") {
        SwapReply::Swapped(swapped) => swapped,
        refused @ SwapReply::Changed(_) => panic!("{refused:?}"),
    }
}

/// Runs tests with a pool of each kind.
macro_rules! on_every_pool {
    ($($test:ident)+) => {
        mod deadpool_postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                super::$test(support::pools::PoolKind::DeadpoolPostgres).await;
            })+
        }
        mod sqlx_postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                super::$test(support::pools::PoolKind::SqlxPostgres).await;
            })+
        }
        mod mysql_async {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                super::$test(support::pools::PoolKind::MysqlAsync).await;
            })+
        }
        mod sqlx_mysql {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                super::$test(support::pools::PoolKind::SqlxMysql).await;
            })+
        }
    };
}
use on_every_pool;
