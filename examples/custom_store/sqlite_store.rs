//! A store in a SQLite database, for servers on one machine: a thin shell around the model.
//!
//! Each step is one transaction that takes the database's write lock *before* it looks at the clock and reads anything.
//! So steps come one after the other, whoever makes them, and no later one sees an earlier time because it waited.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jobs::Timestamp;
use jobs::store::model::{self, Fleet, State};
use jobs::store::{
    Announcement, Claim, Ending, ExtendReply, ForgetReply, HeldLock, History, Lease, ReleaseReply,
    RequestHint, Requested, RunRequest, ServerInfo, Stamped, Store, StoreError, StoreErrorKind, StoreFuture,
    Verdict,
};
use rusqlite::{Connection, ErrorCode, OptionalExtension, Transaction, TransactionBehavior};

/// `FULL`: what was acknowledged survives a power cut.
const SETUP: &str = "
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = FULL;
    CREATE TABLE IF NOT EXISTS job (key TEXT PRIMARY KEY, state TEXT NOT NULL) STRICT;
    CREATE TABLE IF NOT EXISTS fleet (only INTEGER PRIMARY KEY CHECK (only = 1), notes TEXT NOT NULL) STRICT;
";

/// How long a step waits for others' steps.
const PATIENCE: Duration = Duration::from_secs(1);

#[derive(Clone)]
pub struct SqliteStore {
    location: String,
    database: Arc<Mutex<Connection>>,
}

impl SqliteStore {
    /// Opens a database, and makes it if there is none.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let location = format!("sqlite:{}", path.display());
        let opened = Connection::open(path).and_then(|database| {
            database.busy_timeout(PATIENCE)?;
            database.execute_batch(SETUP)?;
            Ok(database)
        });
        match opened {
            Ok(database) => Ok(Self { location, database: Arc::new(Mutex::new(database)) }),
            Err(error) => Err(Trouble::from(error).during("open", &location)),
        }
    }

    /// One atomic step. On a thread of its own, because SQLite blocks; it goes on to its end even if nobody waits for it
    /// any more, as a step on a remote store would.
    fn step<T: Send + 'static>(
        &self,
        name: &'static str,
        step: impl FnOnce(&Transaction<'_>, Timestamp) -> Result<T, Trouble> + Send + 'static,
    ) -> StoreFuture<'_, T> {
        let database = Arc::clone(&self.database);
        let transact = move || {
            let mut database = database.lock().unwrap_or_else(PoisonError::into_inner);
            let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let at = Timestamp::now();
            let reply = step(&transaction, at)?;
            transaction.commit()?;
            Ok(Stamped { at, reply })
        };
        Box::pin(async move {
            let done = tokio::task::spawn_blocking(transact).await;
            let done = done.unwrap_or_else(|error| Err(Trouble::new(StoreErrorKind::Unreachable, error)));
            done.map_err(|trouble| trouble.during(name, &self.location))
        })
    }

    /// A step on what is known of one job.
    fn job_step<T: Send + 'static>(
        &self,
        name: &'static str,
        key: &str,
        transition: impl FnOnce(&mut State, Timestamp) -> T + Send + 'static,
    ) -> StoreFuture<'_, T> {
        let key = key.to_owned();
        self.step(name, move |transaction, now| change_job(transaction, &key, |state| transition(state, now)))
    }

    /// A step on what servers said.
    fn fleet_step<T: Send + 'static>(
        &self,
        name: &'static str,
        transition: impl FnOnce(&mut Fleet, Timestamp) -> T + Send + 'static,
    ) -> StoreFuture<'_, T> {
        self.step(name, move |transaction, now| change_fleet(transaction, |fleet| transition(fleet, now)))
    }
}

fn change_job<T>(
    transaction: &Transaction<'_>,
    key: &str,
    change: impl FnOnce(&mut State) -> T,
) -> Result<T, Trouble> {
    let row =
        transaction.query_row("SELECT state FROM job WHERE key = ?1", [key], |row| row.get::<_, String>(0));
    let before = match row.optional()? {
        Some(json) => State::from_json(json)
            .map_err(|why| Trouble::new(StoreErrorKind::Unreadable, format!("the state of {key} {why}")))?,
        None => State::default(),
    };
    let mut state = before.clone();
    let reply = change(&mut state);
    if state == State::default() {
        transaction.execute("DELETE FROM job WHERE key = ?1", [key])?;
    } else if state != before {
        transaction.execute("REPLACE INTO job (key, state) VALUES (?1, ?2)", [key, &state.to_json()])?;
    }
    Ok(reply)
}

fn change_fleet<T>(
    transaction: &Transaction<'_>,
    change: impl FnOnce(&mut Fleet) -> T,
) -> Result<T, Trouble> {
    let row = transaction.query_row("SELECT notes FROM fleet", [], |row| row.get::<_, String>(0));
    // Notes that cannot be read are as good as none: every server repeats its own within 20 s.
    let before: Fleet = row.optional()?.and_then(|json| serde_json::from_str(&json).ok()).unwrap_or_default();
    let mut fleet = before.clone();
    let reply = change(&mut fleet);
    if fleet != before {
        let json = serde_json::to_string(&fleet).map_err(|e| Trouble::new(StoreErrorKind::Unreadable, e))?;
        transaction.execute("REPLACE INTO fleet (only, notes) VALUES (1, ?1)", [json])?;
    }
    Ok(reply)
}

/// What went wrong, before the store adds the step and its location.
struct Trouble {
    kind: StoreErrorKind,
    cause: Box<dyn std::error::Error + Send + Sync>,
}

impl Trouble {
    fn new(kind: StoreErrorKind, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self { kind, cause: cause.into() }
    }

    fn during(self, step: &'static str, location: &str) -> StoreError {
        StoreError::new(self.kind, step, location, self.cause)
    }
}

impl From<rusqlite::Error> for Trouble {
    fn from(error: rusqlite::Error) -> Self {
        let kind = match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreErrorKind::TimedOut,
            Some(ErrorCode::DiskFull) => StoreErrorKind::Full,
            Some(ErrorCode::PermissionDenied | ErrorCode::ReadOnly) => StoreErrorKind::Refused,
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => StoreErrorKind::Unreadable,
            _ => StoreErrorKind::Unreachable,
        };
        Self::new(kind, error)
    }
}

impl Store for SqliteStore {
    fn location(&self) -> String {
        self.location.clone()
    }

    fn ping(&self) -> StoreFuture<'_, ()> {
        self.step("ping", |_, _| Ok(()))
    }

    fn claim<'a>(&'a self, key: &'a str, claim: &'a Claim) -> StoreFuture<'a, Verdict> {
        let claim = claim.clone();
        self.job_step("claim", key, move |state, now| model::claim(state, now, &claim))
    }

    fn extend<'a>(&'a self, key: &'a str, lease: &'a Lease) -> StoreFuture<'a, ExtendReply> {
        let lease = lease.clone();
        self.job_step("extend", key, move |state, now| model::extend(state, now, &lease))
    }

    fn release<'a>(
        &'a self,
        key: &'a str,
        lease: &'a Lease,
        end: &'a Ending,
    ) -> StoreFuture<'a, ReleaseReply> {
        let (lease, end) = (lease.clone(), end.clone());
        self.job_step("release", key, move |state, now| model::release(state, now, &lease, &end))
    }

    fn set_paused<'a>(&'a self, key: &'a str, paused: bool) -> StoreFuture<'a, ()> {
        self.job_step("set_paused", key, move |state, now| model::set_paused(state, now, paused))
    }

    fn reset<'a>(&'a self, key: &'a str) -> StoreFuture<'a, ()> {
        self.job_step("reset", key, model::reset)
    }

    fn forget<'a>(&'a self, key: &'a str, quiet: Duration) -> StoreFuture<'a, ForgetReply> {
        self.job_step("forget", key, move |state, now| model::forget(state, now, quiet))
    }

    fn request<'a>(&'a self, key: &'a str, request: &'a RunRequest) -> StoreFuture<'a, Requested> {
        let (key, request) = (key.to_owned(), request.clone());
        self.step("request", move |transaction, now| {
            let counts = change_job(transaction, &key, |state| model::request(state, now, &request))?;
            change_fleet(transaction, |fleet| model::hint(fleet, now, &key, &counts))?;
            Ok(counts)
        })
    }

    fn history<'a>(&'a self, key: &'a str) -> StoreFuture<'a, History> {
        self.job_step("history", key, |state, now| model::history(state, now))
    }

    fn break_lock<'a>(&'a self, key: &'a str, remember: usize) -> StoreFuture<'a, Vec<HeldLock>> {
        let name = key.to_owned();
        self.job_step("break_lock", key, move |state, now| model::break_lock(state, now, &name, remember))
    }

    fn locks(&self) -> StoreFuture<'_, Vec<HeldLock>> {
        self.step("locks", |transaction, now| {
            let mut held = Vec::new();
            let mut jobs = transaction.prepare("SELECT key, state FROM job ORDER BY key")?;
            let rows = jobs.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))?;
            for row in rows {
                let (key, json) = row?;
                // What a newer version wrote cannot be read; the others still can.
                held.extend(
                    State::from_json(json).ok().into_iter().flat_map(|state| model::held(&state, now, &key)),
                );
            }
            Ok(held)
        })
    }

    fn announce<'a>(&'a self, announcement: &'a Announcement) -> StoreFuture<'a, Vec<RequestHint>> {
        let announcement = announcement.clone();
        self.fleet_step("announce", move |fleet, now| model::announce(fleet, now, &announcement))
    }

    fn leave<'a>(&'a self, server: &'a str) -> StoreFuture<'a, ()> {
        let server = server.to_owned();
        self.fleet_step("leave", move |fleet, now| model::leave(fleet, now, &server))
    }

    fn servers(&self) -> StoreFuture<'_, Vec<ServerInfo>> {
        self.fleet_step("servers", |fleet, now| model::servers(fleet, now))
    }
}
