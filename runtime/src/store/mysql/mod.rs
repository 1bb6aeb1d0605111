//! A store on a MySQL or MariaDB server: a look is one `SELECT`, a swap one transaction in two messages.
//!
//! There are four tables and no functions, in the database that the URL names. They are created when they are first needed.
//! URLs, parameters and versions: [stores]. What the user must be allowed to do, and the SQL for an administrator:
//! [permissions].
//!
//! | table | holds |
//! |---|---|
//! | `job_lock` | one row per key: its holder, and the state on which the servers decide |
//! | `job_fence` | the newest lease of each key, which transactions of the application check |
//! | `job_record` | the newest runs and skips of each key |
//! | `job_note` | notes that expire: heartbeats, requests for manual runs |
//!
//! ```sql
//! SELECT job_name, server, since, until FROM job_lock WHERE until > UTC_TIMESTAMP(6);
//! SELECT job_name, server, started, ended, outcome, error FROM job_record WHERE kind = 'run' ORDER BY id DESC LIMIT 20;
//! ```
//!
//! All times are UTC. All columns are ASCII and are compared byte by byte: what a job's key may not contain is percent-encoded
//! in names (`a b` is `a%20b`), and appears as `?` in the columns for people. The columns `state` and `record` have
//! everything, as JSON.
//!
//! # What the server's settings may be
//!
//! A session sets what its statements depend on, so these defaults of the server do not matter: `autocommit`, the isolation
//! level, `transaction_read_only`, `sql_mode`, `completion_type`, `sql_safe_updates`, `sql_select_limit`,
//! `foreign_key_checks`, `time_zone`, `wait_timeout`, character sets and collations, `sysdate_is_now`, and the default storage
//! engine. `max_allowed_packet` must have room for a record, which is sent in twice its size: an error names the setting.
//! `binlog_format` must be `ROW` or `MIXED`, because the isolation level is `READ COMMITTED`. A start reports settings with
//! which a crash can lose acknowledged writes, and refuses a server that is read-only or too old.
//!
//! # Locks and clocks
//!
//! A swap locks its row with `NOWAIT` and reads the server's clock in a later statement, after every wait. All its statements are
//! one message, and the commit is another: MariaDB commits a part of a message whose client disconnects meanwhile. A process
//! that is killed in between holds no lock, and one that is stopped holds its row for two seconds, by the session's
//! `wait_timeout`. A deadlock, a locked row and a lock timeout mean that nothing was applied: the swap is sent again while the key is as
//! expected. Only an insert that meets another one of the same key, and a table that an administrator has locked, wait: for a
//! second, the shortest time that the server can be told.
//!
//! # Connections of the application
//!
//! A store over [a pool of the application][lent] saves the session's variables in user variables that begin with `@jobs_`, sets what
//! its statements depend on, and restores both afterwards. Its first statement fails inside an open transaction. Sessions that are
//! read-only (`transaction_read_only`) are refused.
//!
//! # Limits
//!
//! - One primary. On a Galera cluster point all servers to one node: looks at another node may be out of date.
//! - A failover to a replica that has not got every write loses claims, as on every store: use semi-synchronous replication.
//! - There are no notifications: callers that wait for a key poll.
//! - Poolers and proxies (`ProxySQL`, `MaxScale`) have not been tried. They must keep a session's variables.
//!
//! [lent]: crate::guide::stores#connections-of-the-application
//! [permissions]: crate::guide::permissions#mysql-and-mariadb
//! [stores]: crate::guide::stores

use std::fmt;
use std::time::Duration;

use singleton_jobs_policy::check_name;

use super::net::borrowed::application;
use super::net::sql_rows;
use super::net::sql_server::{self, SweepCounter};
use super::net::tls::Certificates;
use super::{
    FenceTable, Finding, JobRecords, Look, Note, Notes, Page, Store, StoreError, StoreErrorKind, StoreFuture,
    Swap, SwapReply, Topic, to_ascii_json,
};
use crate::Timestamp;
use connection::borrowed::{ApplicationPool, PoolSource, WaitingRoom};
use connection::{Lane, MysqlConnection, TextRow};
use errors::MysqlResult;
pub use mysql_async;
#[cfg(feature = "sqlx")]
pub use sqlx;
use statements::literals::decoded;
use statements::reply;
use statements::tables::MysqlTables;

mod address;
mod connection;
mod diagnosis;
mod encryption;
mod errors;
mod statements;
mod transaction;

/// Number of keys on a page.
const PAGE: usize = 1000;

/// Longest life of a note: the present plus this is still a `DATETIME`.
const LONGEST: Duration = Duration::from_secs(1000 * 365 * 86_400);

/// A store on a MySQL or MariaDB server, over two connections that are opened when they are first needed, or over connections of
/// the application.
pub struct MysqlStore {
    location: String,
    user: Option<String>,
    namespace: String,
    tables: MysqlTables,
    added: SweepCounter,
}

impl MysqlStore {
    /// Opens the store at a URL such as `mysql://user:password@host:3306/database`. Does not connect yet.
    ///
    /// Fleets that share a database need different namespaces.
    pub fn open(url: &str, namespace: Option<&str>) -> Result<Self, StoreError> {
        Self::open_as(url, namespace, Certificates::default())
    }

    /// Opens the store with certificates that are not in files.
    #[cfg(feature = "tls")]
    pub fn open_with(
        url: &str,
        namespace: Option<&str>,
        certificates: Certificates,
    ) -> Result<Self, StoreError> {
        Self::open_as(url, namespace, certificates)
    }

    fn open_as(url: &str, namespace: Option<&str>, certificates: Certificates) -> Result<Self, StoreError> {
        let address = address::parse(url).map_err(misconfigured)?;
        let certificates = address.certificates.and(certificates).map_err(misconfigured)?;
        let encryption =
            encryption::prepare(address.sslmode.as_deref(), &certificates).map_err(misconfigured)?;
        let connection = MysqlConnection::new(address.options, encryption, address.timeouts);
        Ok(Self { user: address.user, ..Self::over(connection, address.location, namespace)? })
    }

    /// Opens a store that borrows connections of the application's `mysql_async` pool, one for each request. Call it inside
    /// the application's Tokio runtime, where the requests are sent.
    ///
    /// A request that waits for a connection for longer than the [timeout](Self::with_timeouts) fails, and is repeated as after
    /// any other failure. A job that blocks the application's runtime may lose its lease, because the pool's connections
    /// live there. With a URL the store has connections on the scheduler's own thread.
    ///
    /// ```no_run
    /// # async fn start(pool: mysql_async::Pool) -> Result<(), Box<dyn std::error::Error>> {
    /// use jobs::store::mysql::MysqlStore;
    ///
    /// let store = MysqlStore::from_pool(pool, None)?;
    /// let jobs = jobs::builder().store(store).start_all().await?;
    /// # jobs.shutdown().await;
    /// # Ok(()) }
    /// ```
    pub fn from_pool(pool: mysql_async::Pool, namespace: Option<&str>) -> Result<Self, StoreError> {
        let app = application("from_pool").map_err(misconfigured)?;
        let source = PoolSource { pool: ApplicationPool::MysqlAsync(WaitingRoom::new(pool)), app };
        Self::over(MysqlConnection::lent_by(source), "the application's MySQL pool".to_owned(), namespace)
    }

    /// Opens a store that borrows connections of the application's `sqlx` pool, under the same conditions as
    /// [`from_pool`](Self::from_pool).
    ///
    /// ```no_run
    /// # async fn start(pool: sqlx::MySqlPool) -> Result<(), Box<dyn std::error::Error>> {
    /// use jobs::store::mysql::MysqlStore;
    ///
    /// let store = MysqlStore::from_sqlx(pool, None)?;
    /// let jobs = jobs::builder().store(store).start_all().await?;
    /// # jobs.shutdown().await;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "sqlx")]
    pub fn from_sqlx(pool: sqlx::MySqlPool, namespace: Option<&str>) -> Result<Self, StoreError> {
        let (location, user) = connection::sqlx::location(&pool);
        let app = application("from_sqlx").map_err(misconfigured)?;
        let source = PoolSource { pool: ApplicationPool::Sqlx(pool), app };
        let store = Self::over(MysqlConnection::lent_by(source), location, namespace)?;
        Ok(Self { user: Some(user), ..store })
    }

    fn over(
        connection: MysqlConnection,
        location: String,
        namespace: Option<&str>,
    ) -> Result<Self, StoreError> {
        if let Some(name) = namespace {
            check_name(name, "billing").map_err(|problem| misconfigured(format!("namespace: {problem}")))?;
        }
        Ok(Self {
            location,
            user: None,
            namespace: namespace.unwrap_or_default().to_owned(),
            tables: MysqlTables::new(connection),
            added: SweepCounter::default(),
        })
    }

    /// Sets the timeouts of a connection (by default 2 s) and of a response (1 s). In the URL:
    /// `mysql://host/database?connect_timeout=5s&response_timeout=500ms`.
    #[must_use]
    pub fn with_timeouts(mut self, connect: Duration, response: Duration) -> Self {
        self.tables.connection = self.tables.connection.with_timeouts(connect, response);
        self
    }

    /// Returns the SQL that creates the tables, for an administrator to run where the store's own user may not.
    ///
    /// It may be run repeatedly, and grants the necessary permissions to the user in the URL, from any host. A `mysql_async` pool
    /// names neither its database nor its user: run the SQL in that database, and grant
    /// [what is needed](crate::guide::permissions#mysql-and-mariadb).
    pub fn setup_sql(&self) -> String {
        match self.location.rsplit_once('/') {
            Some((_, database)) if !database.is_empty() => statements::script(database, self.user.as_deref()),
            _ => format!("{};\n", statements::definitions()),
        }
    }

    async fn look_at(&self, key: &str) -> MysqlResult<Look> {
        let look = |rows: &[TextRow]| reply::look(reply::first(rows)?);
        self.tables.ask(Lane::Read, &statements::look(&self.namespace, key), look).await
    }

    async fn write_note(&self, topic: Topic, note: &Note, ttl: Duration) -> MysqlResult<Timestamp> {
        let sql = if ttl.is_zero() {
            statements::remove_note(&self.namespace, topic, &note.name)
        } else {
            let (content, micros) = (to_ascii_json(&&*note.text), ttl.min(LONGEST).as_micros());
            statements::put_note(&self.namespace, topic, &note.name, &content, micros)
        };
        let now = self.tables.ask(Lane::Write, &sql, reply::now).await?;
        self.sweep();
        Ok(now)
    }

    /// Removes a limited number of expired rows.
    fn sweep(&self) {
        self.tables.send_afterwards(statements::sweep());
    }

    fn step<'a, T>(
        &'a self,
        step: &'static str,
        asking: impl Future<Output = MysqlResult<T>> + Send + 'a,
    ) -> StoreFuture<'a, T> {
        sql_server::step(step, &self.location, asking)
    }
}

fn misconfigured(cause: String) -> StoreError {
    StoreError::new(StoreErrorKind::Misconfigured, "open", "a MySQL URL", cause)
}

impl Store for MysqlStore {
    fn location(&self) -> String {
        self.location.clone()
    }

    fn look<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Look> {
        self.step("look", self.look_at(key))
    }

    fn swap<'a>(&'a self, key: &'a str, swap: &'a Swap) -> StoreFuture<'a, SwapReply> {
        self.step("swap", self.swap_or_look(key, swap))
    }

    fn list<'a>(&'a self, page: Option<&'a str>) -> StoreFuture<'a, Page> {
        self.step("list", async move {
            let sql = statements::list(&self.namespace, page.unwrap_or_default(), PAGE);
            self.tables.ask(Lane::Read, &sql, reply::page).await
        })
    }

    fn records<'a>(&'a self, keys: &'a [String], newest: usize) -> StoreFuture<'a, Vec<JobRecords>> {
        self.step("records", async move {
            let sql = statements::records(&self.namespace, keys, newest);
            let found =
                self.tables.ask(Lane::Read, &sql, |rows| Ok(sql_rows::records(rows, decoded)?)).await?;
            Ok(keys.iter().map(|key| found.get(key).cloned().unwrap_or_default()).collect())
        })
    }

    fn put_note<'a>(&'a self, topic: Topic, note: &'a Note, ttl: Duration) -> StoreFuture<'a, Timestamp> {
        self.step("put_note", self.write_note(topic, note, ttl))
    }

    fn notes(&self, topic: Topic) -> StoreFuture<'_, Notes> {
        self.step("notes", async move {
            let notes = |rows: &[TextRow]| Ok(sql_rows::notes(rows, decoded)?);
            self.tables.ask(Lane::Read, &statements::notes(&self.namespace, topic), notes).await
        })
    }

    fn fence_table(&self) -> Option<FenceTable> {
        let (_, database) = self.location.rsplit_once('/').unwrap_or_default();
        Some(FenceTable::Mysql { database: database.to_owned(), namespace: self.namespace.clone() })
    }

    fn diagnose<'a>(&'a self, jobs: &'a [String]) -> StoreFuture<'a, Vec<Finding>> {
        self.step("diagnose", self.findings(jobs))
    }
}

impl fmt::Debug for MysqlStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MysqlStore").field("location", &self.location).finish_non_exhaustive()
    }
}
