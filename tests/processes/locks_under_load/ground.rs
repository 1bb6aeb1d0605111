//! Where the processes meet.

use std::sync::Arc;

use jobs::store::Store;
use jobs::store::file::FileStore;
use jobs::store::postgres::PostgresStore;
use jobs::store::redis::RedisStore;

use support::fleet::Orders;
use support::folder::TempFolder;
use support::postgres_server::PostgresServer;
use support::redis_cluster::RedisCluster;
use support::redis_server::RedisServer;
use support::worker::setting;

/// A store that no other test uses.
pub enum Ground {
    Redis(RedisServer),
    Cluster(&'static RedisCluster, String),
    Postgres(&'static PostgresServer, String),
    Files(TempFolder),
}

impl Ground {
    pub fn redis() -> Self {
        Self::Redis(RedisServer::start())
    }

    /// The stores that are asked for: Redis unless `JOBS_TEST_LOCK_STORES` names others.
    pub fn all(test: &str) -> Vec<Self> {
        let names = std::env::var("JOBS_TEST_LOCK_STORES").unwrap_or_else(|_| "redis".to_owned());
        let ground = |name: &str| match name {
            "redis" => Self::redis(),
            "cluster" => Self::Cluster(RedisCluster::shared(), test.to_owned()),
            "postgres" => Self::Postgres(PostgresServer::shared(), test.to_owned()),
            "files" => Self::Files(TempFolder::in_memory()),
            other => panic!("JOBS_TEST_LOCK_STORES: no such store as {other}"),
        };
        names.split(',').map(ground).collect()
    }

    pub fn name(&self) -> &'static str {
        match self {
            Self::Redis(_) => "Redis",
            Self::Cluster(..) => "Redis Cluster",
            Self::Postgres(..) => "PostgreSQL",
            Self::Files(_) => "files",
        }
    }

    pub fn open(&self) -> Arc<dyn Store> {
        open(&self.url(), self.namespace())
    }

    /// For a process that plays this role here.
    pub fn orders(&self, role: &str) -> Orders {
        let orders = Orders::role(role).set("WORKER_URL", self.url());
        match self.namespace() {
            Some(namespace) => orders.set("WORKER_NAMESPACE", namespace),
            None => orders,
        }
    }

    fn url(&self) -> String {
        match self {
            Self::Redis(server) => server.url(),
            Self::Cluster(cluster, _) => cluster.url(""),
            Self::Postgres(server, _) => server.url(),
            Self::Files(folder) => folder.path().display().to_string(),
        }
    }

    fn namespace(&self) -> Option<&str> {
        match self {
            Self::Cluster(_, namespace) | Self::Postgres(_, namespace) => Some(namespace),
            Self::Redis(_) | Self::Files(_) => None,
        }
    }
}

/// In a process with such orders.
pub fn url_here() -> String {
    setting("URL").expect("the store's URL")
}

/// The store, in a process with such orders.
pub fn open_here() -> Arc<dyn Store> {
    open(&url_here(), setting("NAMESPACE").as_deref())
}

fn open(url: &str, namespace: Option<&str>) -> Arc<dyn Store> {
    if url.starts_with("redis") {
        Arc::new(RedisStore::open(url, namespace).expect("a URL"))
    } else if url.starts_with("postgres") {
        Arc::new(PostgresStore::open(url, namespace).expect("a URL"))
    } else {
        Arc::new(FileStore::open(url, namespace).expect("a folder"))
    }
}

/// A number that a variable may raise.
pub fn repetitions(variable: &str, usual: usize) -> usize {
    std::env::var(variable).map_or(usual, |text| text.parse().expect("a number"))
}
