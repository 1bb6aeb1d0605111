//! The store under a fleet, on a real server: the same tests run on each.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::folder::TempFolder;
use crate::mariadb_server::MariadbServer;
use crate::pooler::{PooledServer, Pooler};
use crate::postgres_server::PostgresServer;
use crate::redis_cluster::RedisCluster;
use crate::redis_sentinel::RedisSentinel;
use crate::redis_server::RedisServer;

/// Where a store is, as a worker is told.
pub trait Whereabouts {
    fn url(&self) -> String;

    fn namespace(&self) -> Option<String> {
        None
    }

    /// Where its data is, for whoever looks behind the store's back: the servers of which one has a key.
    fn nodes(&self) -> Vec<String> {
        vec![self.url()]
    }
}

/// A kind of store. To put another one to the tests, add it here, and to `Hand` what is done to its server.
///
/// A store in memory is not among them: no second process sees it. What it promises to the servers of one process is in
/// the program `fleet`, on a clock that the tests move.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Redis,
    Postgres,
    /// PostgreSQL behind PgBouncer, with a connection per transaction.
    Pooled,
    Sentinel,
    Cluster,
    File,
    Sqlite,
    Mysql,
}

/// Nobody finds a server dead, however long it is silent.
const NEVER: Duration = Duration::from_secs(600);
const DURABLE: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];

impl Kind {
    pub const ALL: &[Self] = &[
        Self::Redis,
        Self::Postgres,
        Self::Pooled,
        Self::Sentinel,
        Self::Cluster,
        Self::File,
        Self::Sqlite,
        Self::Mysql,
    ];

    /// A store that no other test uses.
    pub fn home(self) -> Home {
        match self {
            Self::Redis => Home::of(RedisServer::start()),
            Self::Postgres => Home::shared(PostgresServer::shared()),
            Self::Pooled => Home::shared(Pooler::shared()),
            Self::Mysql => Home::shared(MariadbServer::shared()),
            Self::Sentinel => Home::shared(RedisSentinel::shared()),
            Self::Cluster => Home::shared(RedisCluster::shared()),
            Self::File => Home::Folder { folder: TempFolder::in_memory(), scheme: "file", file: "" },
            Self::Sqlite => {
                Home::Folder { folder: TempFolder::in_memory(), scheme: "sqlite", file: "/jobs.db" }
            }
        }
    }

    /// The time between ticks for one that is killed, if others are back at once: a cluster takes two seconds to trust
    /// itself again.
    pub fn between_ticks(self, seconds: u64) -> Duration {
        Duration::from_secs(if matches!(self, Self::Cluster) { 2 * seconds } else { seconds })
    }

    /// One that may be killed, and has forgotten nothing when it is back.
    pub fn durable_home(self) -> Home {
        match self {
            Self::Redis => Home::of(RedisServer::start_with(&DURABLE)),
            Self::Postgres => Home::of(PostgresServer::start()),
            Self::Pooled => Home::of(PooledServer::start()),
            Self::Mysql => Home::of(MariadbServer::start()),
            Self::Sentinel => Home::of(RedisSentinel::start_with(NEVER, &DURABLE)),
            Self::Cluster => Home::of(RedisCluster::start_with(NEVER, &DURABLE)),
            Self::File | Self::Sqlite => panic!("a folder cannot be killed"),
        }
    }
}

/// A server, or several that are one store.
pub trait Server: Whereabouts {
    /// It dies as by a power cut.
    fn kill(&mut self);

    /// It is there again, on the same port.
    fn restart(&mut self);
}

/// A store of the test's own.
pub enum Home {
    Own(Box<dyn Server>),
    /// Slow to start, so that one server serves many tests.
    Shared {
        place: &'static (dyn Whereabouts + Sync),
        namespace: String,
    },
    Folder {
        folder: TempFolder,
        scheme: &'static str,
        /// What the URL has behind the folder.
        file: &'static str,
    },
}

impl Home {
    pub fn of(server: impl Server + 'static) -> Self {
        Self::Own(Box::new(server))
    }

    fn shared(place: &'static (impl Whereabouts + Sync)) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let namespace = format!("test{}", COUNT.fetch_add(1, Ordering::Relaxed));
        Self::Shared { place, namespace }
    }

    fn server(&mut self) -> &mut dyn Server {
        match self {
            Self::Own(server) => server.as_mut(),
            _ => panic!("no server of the test's own: ask for a durable home"),
        }
    }

    pub fn kill(&mut self) {
        self.server().kill();
    }

    pub fn restart(&mut self) {
        self.server().restart();
    }
}

impl Whereabouts for Home {
    fn url(&self) -> String {
        match self {
            Self::Own(server) => server.url(),
            Self::Shared { place, .. } => place.url(),
            Self::Folder { folder, scheme, file } => format!("{scheme}://{}{file}", folder.path().display()),
        }
    }

    fn namespace(&self) -> Option<String> {
        match self {
            Self::Shared { namespace, .. } => Some(namespace.clone()),
            _ => None,
        }
    }

    fn nodes(&self) -> Vec<String> {
        match self {
            Self::Own(server) => server.nodes(),
            Self::Shared { place, .. } => place.nodes(),
            Self::Folder { .. } => Vec::new(),
        }
    }
}

/// A single server, which has its own way to be killed and restarted.
macro_rules! single_servers {
    ($($server:ident),+) => { $(
        impl Whereabouts for $server {
            fn url(&self) -> String {
                self.url()
            }
        }

        impl Server for $server {
            fn kill(&mut self) {
                self.kill();
            }

            fn restart(&mut self) {
                self.restart();
            }
        }
    )+ };
}

single_servers!(MariadbServer, RedisServer, PostgresServer);
