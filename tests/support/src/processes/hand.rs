//! A hand on the store of a test's fleet: what another program, or an operator, sees there and does to its server.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use jobs::Timestamp;
use jobs::history::History;
use jobs::schedule::Overlap;
use jobs::store::file::FileStore;
use jobs::store::mysql::MysqlStore;
use jobs::store::postgres::PostgresStore;
use jobs::store::redis::RedisStore;
use jobs::store::sqlite::SqliteStore;
use jobs::store::{ClaimDecision, Look, Store, TickClaim};
use jobs::testing::store::Client;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts};
use redis::{Cmd, ErrorKind, FromRedisValue, RedisResult, ServerErrorKind};
use tokio_postgres::{NoTls, Row};

use crate::bench::{ask, claim_with};
use crate::fleet::{send_signal, try_signal};
use crate::home::Whereabouts;
use crate::postgres_server;
use crate::worker::KEY;

/// A plain client, connected anew for each command, so that it survives whatever happens to the server.
pub struct Hand {
    url: String,
    namespace: Option<String>,
    /// The servers of which one has the job's keys.
    nodes: Vec<String>,
}

impl Hand {
    pub fn on(place: &impl Whereabouts) -> Self {
        Self { url: place.url(), namespace: place.namespace(), nodes: place.nodes() }
    }

    pub fn at(url: String) -> Self {
        Self { nodes: vec![url.clone()], url, namespace: None }
    }

    fn each_node(&self) -> impl Iterator<Item = Self> {
        self.nodes.iter().cloned().map(Self::at)
    }

    fn is_postgres(&self) -> bool {
        self.url.starts_with("postgres")
    }

    fn is_mysql(&self) -> bool {
        self.url.starts_with("mysql")
    }

    fn is_redis(&self) -> bool {
        self.url.starts_with("redis")
    }

    pub fn run<T: FromRedisValue>(&self, command: &Cmd) -> T {
        self.try_run(command).expect("the server obeys")
    }

    /// Runs the command on the node that does not send it elsewhere.
    fn try_run<T: FromRedisValue>(&self, command: &Cmd) -> RedisResult<T> {
        for node in &self.nodes {
            let client = redis::Client::open(node.as_str()).expect("a URL");
            match command.query(&mut client.get_connection()?) {
                Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::Moved) => {}
                answer => return answer,
            }
        }
        panic!("no node of {:?} has the key", self.nodes);
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
            let (client, connection) =
                tokio_postgres::connect(&self.nodes[0], NoTls).await.expect("a connection");
            let connection = tokio::spawn(connection);
            let namespace = self.namespace.as_deref().unwrap_or_default();
            let rows = client.query(statement, &[&namespace, &key]).await.expect(statement);
            drop(client);
            connection.await.expect("no panic").expect("a proper end");
            rows
        })
    }

    /// A query to MariaDB, as an administrator.
    fn query(&self, statement: &str) -> mysql_async::Result<Vec<String>> {
        block_on(async {
            let url = self.nodes[0].replace("jobs:sesame@", "admin@");
            let mut client = Conn::new(Opts::from_url(&url).expect("a URL")).await.expect("a connection");
            let rows = client.query(statement).await;
            client.disconnect().await.expect("a proper end");
            rows
        })
    }

    /// The lock's name on Redis.
    fn lock_key(&self, key: &str) -> String {
        let prefix = self.namespace.as_ref().map(|name| format!("{name}:")).unwrap_or_default();
        format!("{prefix}lock:{key}")
    }

    /// The token in the job's lock.
    pub fn lock(&self) -> Option<String> {
        self.lock_of(KEY)
    }

    pub fn lock_of(&self, key: &str) -> Option<String> {
        if self.is_redis() {
            return self.say(&format!("GET {}", self.lock_key(key)));
        }
        let look = self.look(key);
        look.state.holder(look.now).map(|holder| holder.token.to_string())
    }

    /// The newest tick that was decided.
    pub fn mark(&self) -> Option<i64> {
        self.look(KEY).state.mark.as_ref().map(|mark| mark.tick.as_micros())
    }

    fn look(&self, key: &str) -> Look {
        self.ask(async |client| client.store().look(key).await.expect("a look"))
    }

    /// What the store remembers of the job.
    pub fn history(&self) -> History {
        self.history_of(KEY)
    }

    pub fn history_of(&self, key: &str) -> History {
        self.ask(async |client| client.history(key).await.expect("its history").reply)
    }

    /// Who has announced itself.
    pub fn servers(&self) -> Vec<String> {
        let servers = self.ask(async |client| client.servers().await.expect("a list").reply);
        servers.into_iter().map(|server| server.id).collect()
    }

    /// A late server asks for a tick, with all the grace of the world.
    pub fn claim(&self, tick: Timestamp) -> ClaimDecision {
        let patient = TickClaim { grace: Duration::from_secs(3600), overlap: Overlap::Queue, ..ask(tick) };
        let claim = claim_with("late", Duration::from_secs(1), patient);
        self.ask(async |client| client.claim(KEY, &claim).await.expect("an answer").reply.decision)
    }

    fn ask<T>(&self, question: impl AsyncFnOnce(Client) -> T) -> T {
        block_on(question(Client::of(open(&self.url, self.namespace.as_deref()))))
    }

    /// Whether nobody is in the middle of a step, for as long as it takes to look: a folder's keys are locked then.
    pub fn is_at_rest(&self) -> bool {
        if let Some(path) = database_of(&self.url) {
            let database = rusqlite::Connection::open(path).expect("a database");
            database.busy_timeout(Duration::ZERO).expect("a setting");
            return database.execute_batch("BEGIN IMMEDIATE; ROLLBACK").is_ok();
        }
        let Some(folder) = folder_of(&self.url) else { return true };
        let files = std::fs::read_dir(folder).expect("a folder").flatten().map(|file| file.path());
        let mut locks = files.filter(|file| file.extension().is_some_and(|name| name == "lock"));
        locks.all(|lock| std::fs::File::open(lock).is_ok_and(|lock| lock.try_lock().is_ok()))
    }

    /// Ends every connection to the server but the one that says so.
    pub fn cut_connections(&self) {
        if self.is_postgres() {
            let statement = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                WHERE application_name = 'singleton-jobs' AND $1::text IS NOT NULL AND $2::text IS NOT NULL";
            self.select(statement, KEY);
        } else if self.is_mysql() {
            let of_jobs = "SELECT CAST(id AS CHAR) FROM information_schema.processlist WHERE user = 'jobs'";
            for session in self.query(of_jobs).expect("a list") {
                let _may_have_ended = self.query(&format!("KILL {session}"));
            }
        } else {
            for node in self.each_node() {
                let _killed: u32 = node.say("CLIENT KILL TYPE normal");
            }
        }
    }

    /// The server stands still, and its clients' requests queue up.
    pub fn stop_server(&self) -> StoppedServer {
        let processes: Vec<u32> = if self.is_postgres() {
            let statement = "SELECT split_part(pg_read_file('postmaster.pid'), E'\\n', 1)::int UNION ALL
                SELECT pid FROM pg_stat_activity
                WHERE pid <> pg_backend_pid() AND $1::text IS NOT NULL AND $2::text IS NOT NULL";
            let process = |row: &Row| u32::try_from(row.get::<_, i32>(0)).expect("positive");
            self.select(statement, KEY).iter().map(process).collect()
        } else if self.is_mysql() {
            let path = self.query("SELECT @@pid_file").expect("an answer").pop().expect("a path");
            let process = std::fs::read_to_string(path).expect("a file with its process");
            vec![process.trim().parse().expect("a number")]
        } else {
            let process = |node: Self| {
                let info: String = node.say("INFO server");
                let process = info.lines().find_map(|line| line.strip_prefix("process_id:"));
                process.expect("its process").trim().parse().expect("a number")
            };
            self.each_node().map(process).collect()
        };
        // The first is PostgreSQL's own process. A connection may have ended meanwhile.
        send_signal(processes[0], "-STOP");
        let stopped = |process: &u32| try_signal(*process, "-STOP");
        let processes = processes.into_iter().filter(stopped).collect();
        StoppedServer { processes }
    }
}

/// The store at a URL, for whoever is patient.
pub fn open(url: &str, namespace: Option<&str>) -> Arc<dyn Store> {
    let patience = postgres_server::PATIENCE;
    if let Some(folder) = folder_of(url) {
        Arc::new(FileStore::open(folder, namespace).expect("a folder"))
    } else if let Some(path) = database_of(url) {
        Arc::new(SqliteStore::open(path, namespace).expect("a database"))
    } else if url.starts_with("mysql") {
        let store = MysqlStore::open(url, namespace).expect("a URL");
        Arc::new(store.with_timeouts(patience, patience))
    } else if url.starts_with("postgres") {
        let store = PostgresStore::open(url, namespace).expect("a URL");
        Arc::new(store.with_timeouts(patience, patience))
    } else {
        let store = RedisStore::open(url, namespace).expect("a URL");
        Arc::new(store.with_timeouts(patience, patience))
    }
}

fn folder_of(url: &str) -> Option<&str> {
    url.strip_prefix("file://")
}

fn database_of(url: &str) -> Option<&str> {
    url.strip_prefix("sqlite://")
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
            // One that ended meanwhile is not missed.
            let _sent = Command::new("kill").args(["-CONT", &process.to_string()]).status();
        }
    }
}
