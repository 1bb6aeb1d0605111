//! The store under a fleet, on a real server: the same tests run on each.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU32, Ordering};

use super::postgres_server::PostgresServer;
use super::redis_server::RedisServer;

/// Where a store is, as a worker is told.
pub trait Whereabouts {
    fn url(&self) -> String;

    fn namespace(&self) -> Option<String> {
        None
    }
}

/// A kind of store. To put another one to the tests, add it here, and to `Hand` what is done to its server.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Redis,
    Postgres,
}

/// The list of what is promised on every store: each becomes a test.
#[allow(unused_macros, reason = "not every test program has such promises")]
macro_rules! promises {
    ($($promises:ident::$promise:ident;)+) => { $(
        #[test]
        fn $promise() {
            $crate::support::home::on_every_store($promises::$promise);
        }
    )+ };
}

#[allow(unused_imports, reason = "as above")]
pub(crate) use promises;

/// Keeps a promise on every store, side by side: such tests are mostly waiting.
pub fn on_every_store(promise: fn(Kind)) {
    let kept = |kind: Kind| {
        move || {
            let kept = catch_unwind(AssertUnwindSafe(|| promise(kind)));
            kept.inspect_err(|_| eprintln!("the promise was broken on {kind:?}"))
        }
    };
    let results = std::thread::scope(|scope| {
        let running = [Kind::Redis, Kind::Postgres].map(|kind| scope.spawn(kept(kind)));
        running.map(|thread| thread.join().expect("caught before"))
    });
    for result in results {
        result.unwrap_or_else(|panic| resume_unwind(panic));
    }
}

impl Kind {
    /// A store that no other test uses.
    pub fn home(self) -> Home {
        match self {
            Self::Redis => Home::Redis(RedisServer::start()),
            Self::Postgres => {
                static COUNT: AtomicU32 = AtomicU32::new(0);
                let namespace = format!("test{}", COUNT.fetch_add(1, Ordering::Relaxed));
                Home::SharedPostgres { server: PostgresServer::shared(), namespace }
            }
        }
    }

    /// One that may be killed, and has forgotten nothing when it is back.
    pub fn durable_home(self) -> Home {
        match self {
            Self::Redis => {
                Home::Redis(RedisServer::start_with(&["--appendonly", "yes", "--appendfsync", "always"]))
            }
            Self::Postgres => Home::Postgres(PostgresServer::start()),
        }
    }
}

/// A store of the test's own.
pub enum Home {
    Redis(RedisServer),
    Postgres(PostgresServer),
    /// Slow to start, so that one server serves many tests.
    SharedPostgres {
        server: &'static PostgresServer,
        namespace: String,
    },
}

impl Home {
    /// The server dies as by a power cut.
    pub fn kill(&mut self) {
        match self {
            Self::Redis(server) => server.kill(),
            Self::Postgres(server) => server.kill(),
            Self::SharedPostgres { .. } => panic!("others use it, too: ask for a durable home"),
        }
    }

    /// The server is there again, on the same port.
    pub fn restart(&mut self) {
        match self {
            Self::Redis(server) => server.restart(),
            Self::Postgres(server) => server.restart(),
            Self::SharedPostgres { .. } => panic!("others use it, too: ask for a durable home"),
        }
    }
}

impl Whereabouts for Home {
    fn url(&self) -> String {
        match self {
            Self::Redis(server) => server.url(),
            Self::Postgres(server) => server.url(),
            Self::SharedPostgres { server, .. } => server.url(),
        }
    }

    fn namespace(&self) -> Option<String> {
        match self {
            Self::SharedPostgres { namespace, .. } => Some(namespace.clone()),
            _ => None,
        }
    }
}

impl Whereabouts for RedisServer {
    fn url(&self) -> String {
        self.url()
    }
}
