//! A store in a SQLite database: for the processes of one machine, in one file that can be read with SQL.
//!
//! The database is in WAL mode: a look does not wait for a process that writes, and shows every write that was acknowledged. A
//! swap is one transaction that has the database's write lock *before* it reads the record and the clock. The clock is the
//! machine's. With `synchronous = FULL` a write that was acknowledged survives a power cut. URLs: [stores]. What the process
//! must be allowed to do: [permissions].
//!
//! | table | holds |
//! |---|---|
//! | `job_lock` | one row per key: its holder, and the state on which the servers decide |
//! | `job_fence` | the newest lease of each key, which transactions of the application check |
//! | `job_record` | the newest runs and skips of each key |
//! | `job_note` | notes that expire: heartbeats, requests for manual runs |
//!
//! ```sql
//! SELECT job_name, server, since, until FROM job_lock WHERE datetime(until) > datetime('now'); -- the holders
//! SELECT job_name, server, started, ended, outcome, error FROM job_record WHERE kind = 'run' ORDER BY id DESC LIMIT 20;
//! ```
//!
//! # Limits
//!
//! - **One machine.** On a network share locks and clocks differ, and WAL does not work at all. A start reports it.
//! - **One writer at a time** in the whole database. A process that is stopped (`SIGSTOP`, a debugger) in the middle of a swap
//!   blocks the swaps of all keys until it continues or is killed. Each waits for a second and is then an error that is retried.
//!   Looks are not affected. With [files](crate::store::file) only the swaps of that key are.
//! - **Every swap is flushed to the disk by itself**, so the disk limits their number per second.
//! - A long write transaction of the application blocks the leases of its jobs, and `VACUUM` or a backup that takes an exclusive
//!   lock does so, too. Give the jobs a database of their own, unless they [finish](crate::Run::finish_blocking) in transactions of
//!   the application.
//! - A database that is removed or replaced while servers use it is an error until it is back, or the servers restart: SQLite
//!   itself would continue with the old file, beside servers that use the new one.
//! - There are no notifications: callers that wait for a key poll.
//!
//! [permissions]: crate::guide::permissions#sqlite
//! [stores]: crate::guide::stores

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::{Connection, Transaction};
use singleton_jobs_policy::check_name;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use super::{
    FenceTable, Finding, JobRecords, Look, Note, Notes, Page, Store, StoreError, StoreErrorKind, StoreFuture,
    Swap, SwapReply, Topic,
};
use crate::Timestamp;
use crate::util::turns::Turns;
use database::{Database, READERS, interrupted};
use errors::{SqliteError, SqliteResult};
use requests::Requests;

mod database;
mod diagnosis;
mod errors;
mod requests;
pub(crate) mod transaction;

/// How long a swap waits for the writes of other processes, unless set.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// A database on a local disk that every server on this machine opens.
///
/// Its methods need a Tokio runtime, on whose blocking threads they run.
#[derive(Clone)]
pub struct SqliteStore {
    database: Arc<Database>,
    requests: Arc<Requests>,
    /// Room for requests that read.
    readers: Arc<Semaphore>,
    /// Turns of requests that write: they wait without a thread.
    turns: Arc<Turns>,
    lock_timeout: Duration,
}

impl SqliteStore {
    /// Opens a database, and creates it if it is missing; its folder must exist. Namespaces have separate keys.
    pub fn open(path: impl Into<PathBuf>, namespace: Option<&str>) -> Result<Self, StoreError> {
        let given = path.into();
        // A later change of the working directory must not move the store.
        let path = std::path::absolute(&given).unwrap_or(given);
        let location = location(&path);
        if let Some(name) = namespace {
            check_name(name, "billing").map_err(|problem| {
                let problem = format!("namespace: {problem}");
                StoreError::new(StoreErrorKind::Misconfigured, "open", &location, problem)
            })?;
        }
        let database = Database::create(path);
        let database = database
            .map_err(|SqliteError { kind, cause }| StoreError::new(kind, "open", &location, cause))?;
        Ok(Self {
            database: Arc::new(database),
            requests: Arc::new(Requests { namespace: namespace.unwrap_or_default().to_owned() }),
            readers: Arc::new(Semaphore::new(READERS)),
            turns: Arc::default(),
            lock_timeout: LOCK_TIMEOUT,
        })
    }

    /// Sets the time for which a swap waits for the writes of other processes; one second by default.
    #[must_use]
    pub fn with_lock_timeout(mut self, timeout: Duration) -> Self {
        self.lock_timeout = timeout;
        self
    }

    /// Looks from time to time while another process has the lock: a swap that would be refused needs none.
    async fn swap_or_look(&self, key: &str, swap: &Swap) -> SqliteResult<SwapReply> {
        let deadline = Instant::now() + self.lock_timeout;
        loop {
            let (of, change) = (key.to_owned(), swap.clone());
            let attempt = move |requests: &Requests, transaction: &Transaction<'_>| {
                requests.swap(transaction, &of, &change)
            };
            let busy = match self.written(attempt).await {
                Err(error) if error.is_busy() => error,
                result => return result,
            };
            let of = key.to_owned();
            let look = self.seen(move |requests, database| requests.look(database, &of)).await?;
            if !swap.applies_to(&look) {
                return Ok(SwapReply::Changed(look));
            }
            if Instant::now() >= deadline {
                return Err(busy);
            }
        }
    }

    fn named<T>(&self, step: &'static str, result: SqliteResult<T>) -> Result<T, StoreError> {
        result.map_err(|SqliteError { kind, cause }| StoreError::new(kind, step, self.location(), cause))
    }

    /// Runs a request that reads, on a blocking thread.
    async fn seen<T: Send + 'static>(
        &self,
        step: impl FnOnce(&Requests, &Connection) -> SqliteResult<T> + Send + 'static,
    ) -> SqliteResult<T> {
        let room = Arc::clone(&self.readers).acquire_owned().await;
        let (database, requests) = (Arc::clone(&self.database), Arc::clone(&self.requests));
        let done = spawn_blocking(move || {
            let _room = room;
            database.read(|connection| step(&requests, connection))
        });
        done.await.unwrap_or_else(|error| Err(interrupted(&error)))
    }

    /// Runs a request that writes, on a blocking thread: to its end, even if the caller does not wait for it, so that no
    /// transaction stays open.
    async fn written<T: Send + 'static>(
        &self,
        step: impl FnOnce(&Requests, &Transaction<'_>) -> SqliteResult<T> + Send + 'static,
    ) -> SqliteResult<T> {
        let turn = self.turns.take().await;
        let (database, requests) = (Arc::clone(&self.database), Arc::clone(&self.requests));
        let done = spawn_blocking(move || {
            let _turn = turn;
            database.write(|transaction| step(&requests, transaction))
        });
        done.await.unwrap_or_else(|error| Err(interrupted(&error)))
    }

    fn read<'a, T: Send + 'static>(
        &'a self,
        name: &'static str,
        step: impl FnOnce(&Requests, &Connection) -> SqliteResult<T> + Send + 'static,
    ) -> StoreFuture<'a, T> {
        Box::pin(async move { self.named(name, self.seen(step).await) })
    }
}

fn location(path: &std::path::Path) -> String {
    format!("sqlite://{}", path.display())
}

impl Store for SqliteStore {
    fn location(&self) -> String {
        location(&self.database.path)
    }

    fn look<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Look> {
        let key = key.to_owned();
        self.read("look", move |requests, database| requests.look(database, &key))
    }

    fn swap<'a>(&'a self, key: &'a str, swap: &'a Swap) -> StoreFuture<'a, SwapReply> {
        Box::pin(async move { self.named("swap", self.swap_or_look(key, swap).await) })
    }

    fn list<'a>(&'a self, page: Option<&'a str>) -> StoreFuture<'a, Page> {
        let page = page.map(str::to_owned);
        self.read("list", move |requests, database| requests.list(database, page.as_deref()))
    }

    fn records<'a>(&'a self, keys: &'a [String], newest: usize) -> StoreFuture<'a, Vec<JobRecords>> {
        let keys = keys.to_vec();
        self.read("records", move |requests, database| requests.records(database, &keys, newest))
    }

    fn put_note<'a>(&'a self, topic: Topic, note: &'a Note, ttl: Duration) -> StoreFuture<'a, Timestamp> {
        let note = note.clone();
        Box::pin(async move {
            let written = self
                .written(move |requests, transaction| requests.put_note(transaction, topic, &note, ttl))
                .await;
            self.named("put_note", written)
        })
    }

    fn notes(&self, topic: Topic) -> StoreFuture<'_, Notes> {
        self.read("notes", move |requests, database| requests.notes(database, topic))
    }

    fn fence_table(&self) -> Option<FenceTable> {
        Some(FenceTable::Sqlite { namespace: self.requests.namespace.clone() })
    }

    fn diagnose<'a>(&'a self, jobs: &'a [String]) -> StoreFuture<'a, Vec<Finding>> {
        let (jobs, path) = (jobs.to_vec(), self.database.path.clone());
        self.read("diagnose", move |requests, database| diagnosis::look(requests, database, &path, &jobs))
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore").field("path", &self.database.path).finish_non_exhaustive()
    }
}
