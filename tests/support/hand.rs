//! A hand on the store of a test's fleet: what another program, or an operator, sees there and does to its server.

use std::sync::Arc;
use std::time::Duration;

use jobs::store::postgres::PostgresStore;
use jobs::store::redis::RedisStore;
use jobs::store::{ClaimReply, Store, TickClaim};
use jobs::{History, Overlap, Timestamp};
use redis::{Cmd, FromRedisValue, RedisResult};
use tokio_postgres::{NoTls, Row};

use super::bench::{ask, claim_with};
use super::fleet::send_signal;
use super::home::Whereabouts;
use super::postgres_server;
use super::worker::KEY;

/// A plain client, connected anew for each command, so that it survives whatever happens to the server.
pub struct Hand {
    url: String,
    namespace: Option<String>,
}

impl Hand {
    pub fn on(place: &impl Whereabouts) -> Self {
        Self { url: place.url(), namespace: place.namespace() }
    }

    pub fn at(url: String) -> Self {
        Self { url, namespace: None }
    }

    fn is_postgres(&self) -> bool {
        self.url.starts_with("postgres")
    }

    pub fn run<T: FromRedisValue>(&self, command: &Cmd) -> T {
        self.try_run(command).expect("the server obeys")
    }

    fn try_run<T: FromRedisValue>(&self, command: &Cmd) -> RedisResult<T> {
        let client = redis::Client::open(self.url.as_str()).expect("a URL");
        command.query(&mut client.get_connection()?)
    }

    /// A command to Redis, in words.
    pub fn say<T: FromRedisValue>(&self, words: &str) -> T {
        self.try_say(words).unwrap_or_else(|error| panic!("{words}: {error}"))
    }

    /// The same, to a server that may be gone or not agree.
    pub fn try_say<T: FromRedisValue>(&self, words: &str) -> RedisResult<T> {
        let mut words = words.split(' ');
        let mut command = redis::cmd(words.next().expect("a command"));
        for word in words {
            command.arg(word);
        }
        self.try_run(&command)
    }

    /// A statement to PostgreSQL, whose `$1` is the namespace and `$2` a key.
    fn select(&self, statement: &str, key: &str) -> Vec<Row> {
        block_on(async {
            let (client, connection) = tokio_postgres::connect(&self.url, NoTls).await.expect("a connection");
            let connection = tokio::spawn(connection);
            let namespace = self.namespace.as_deref().unwrap_or_default();
            let rows = client.query(statement, &[&namespace, &key]).await.expect(statement);
            drop(client);
            connection.await.expect("no panic").expect("a proper end");
            rows
        })
    }

    /// The token in the job's lock.
    pub fn lock(&self) -> Option<String> {
        self.lock_of(KEY)
    }

    pub fn lock_of(&self, key: &str) -> Option<String> {
        if self.is_postgres() {
            let statement = "SELECT lock_token FROM job_lock WHERE namespace = $1 AND job_name = $2
                AND (lock_until IS NULL OR lock_until > extract(epoch FROM clock_timestamp()) * 1000000)";
            return self.select(statement, key).first().and_then(|row| row.get(0));
        }
        let prefix = self.namespace.as_ref().map(|name| format!("{name}:")).unwrap_or_default();
        self.say(&format!("GET {prefix}lock:{key}"))
    }

    /// The newest tick that was decided.
    pub fn mark(&self) -> Option<i64> {
        if self.is_postgres() {
            let statement = "SELECT mark FROM job_lock WHERE namespace = $1 AND job_name = $2";
            return self.select(statement, KEY).first().and_then(|row| row.get(0));
        }
        self.say(&format!("HGET {{lock:{KEY}}}:state mark"))
    }

    /// What the store remembers of the job.
    pub fn history(&self) -> History {
        self.history_of(KEY)
    }

    pub fn history_of(&self, key: &str) -> History {
        self.ask(async |store| store.history(key).await.expect("its history").reply)
    }

    /// A late server asks for a tick, with all the grace of the world.
    pub fn claim(&self, tick: Timestamp) -> ClaimReply {
        let patient = TickClaim { grace: Duration::from_secs(3600), overlap: Overlap::Queue, ..ask(tick) };
        let claim = claim_with("late", Duration::from_secs(1), patient);
        self.ask(async |store| store.claim(KEY, &claim).await.expect("an answer").reply.decision)
    }

    fn ask<T>(&self, question: impl AsyncFnOnce(Arc<dyn Store>) -> T) -> T {
        let (url, namespace) = (self.url.as_str(), self.namespace.as_deref());
        let patience = postgres_server::PATIENCE;
        let store: Arc<dyn Store> = if self.is_postgres() {
            let store = PostgresStore::open(url, namespace).expect("a URL");
            Arc::new(store.with_timeouts(patience, patience))
        } else {
            let store = RedisStore::open(url, namespace).expect("a URL");
            Arc::new(store.with_timeouts(patience, patience))
        };
        block_on(question(store))
    }

    /// Ends every connection to the server but the one that says so.
    pub fn cut_connections(&self) {
        if self.is_postgres() {
            let statement = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                WHERE application_name = 'singleton-jobs' AND $1::text IS NOT NULL AND $2::text IS NOT NULL";
            self.select(statement, KEY);
        } else {
            self.say::<u32>("CLIENT KILL TYPE normal");
        }
    }

    /// The server stands still, and its clients' requests queue up.
    pub fn stop_server(&self) -> StoppedServer {
        let processes = if self.is_postgres() {
            let statement = "SELECT split_part(pg_read_file('postmaster.pid'), E'\\n', 1)::int UNION ALL
                SELECT pid FROM pg_stat_activity
                WHERE pid <> pg_backend_pid() AND $1::text IS NOT NULL AND $2::text IS NOT NULL";
            let process = |row: &Row| u32::try_from(row.get::<_, i32>(0)).expect("positive");
            self.select(statement, KEY).iter().map(process).collect()
        } else {
            let info: String = self.say("INFO server");
            let process = info.lines().find_map(|line| line.strip_prefix("process_id:"));
            vec![process.expect("its process").trim().parse().expect("a number")]
        };
        for process in &processes {
            send_signal(*process, "-STOP");
        }
        StoppedServer { processes }
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(future)
}

/// Goes on when dropped.
pub struct StoppedServer {
    processes: Vec<u32>,
}

impl Drop for StoppedServer {
    fn drop(&mut self) {
        for process in &self.processes {
            send_signal(*process, "-CONT");
        }
    }
}
