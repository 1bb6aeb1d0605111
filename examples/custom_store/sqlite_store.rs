//! A store in a SQLite database, for servers on one machine. It decides nothing: it stores one record per key as text, and
//! the crate applies the swaps to it.
//!
//! A swap is one transaction that takes the database's write lock *before* it reads the clock and the record. So the swaps of
//! all processes are serialized, and the time that one waited counts.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jobs::Timestamp;
use jobs::store::{
    JobRecords, Look, Note, Notes, Page, Record, Store, StoreError, StoreErrorKind, StoreFuture, Swap,
    SwapReply, Topic, UnreadableRecord,
};
use rusqlite::{Connection, ErrorCode, OptionalExtension, TransactionBehavior, params};

/// `FULL`: a write that was acknowledged survives a power cut. Times are microseconds since 1970.
const SETUP: &str = "
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = FULL;
    CREATE TABLE IF NOT EXISTS job (key TEXT PRIMARY KEY, record TEXT NOT NULL, expires INTEGER) STRICT;
    CREATE INDEX IF NOT EXISTS job_expires ON job (expires) WHERE expires IS NOT NULL;
    CREATE TABLE IF NOT EXISTS note (topic TEXT, name TEXT, text TEXT NOT NULL, expires INTEGER NOT NULL,
        PRIMARY KEY (topic, name)) STRICT;
";

/// How long a step waits for other processes' writes.
const BUSY_TIMEOUT: Duration = Duration::from_secs(1);
/// Keys on a page of the list.
const PAGE: usize = 1_000;

#[derive(Clone)]
pub struct SqliteStore {
    location: String,
    database: Arc<Mutex<Connection>>,
}

impl SqliteStore {
    /// Opens a database, and creates it if it is missing.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let location = format!("sqlite:{}", path.display());
        let opened = Connection::open(path).and_then(|database| {
            database.busy_timeout(BUSY_TIMEOUT)?;
            database.execute_batch(SETUP).map(|()| database)
        });
        let database = opened.map_err(|error| Failure::from(error).during("open", &location))?;
        Ok(Self { location, database: Arc::new(Mutex::new(database)) })
    }

    /// Runs a step on a blocking thread, to its end even if the caller does not wait for it: as on a remote store.
    fn step<T: Send + 'static>(
        &self,
        name: &'static str,
        step: impl FnOnce(&mut Connection) -> Result<T, Failure> + Send + 'static,
    ) -> StoreFuture<'_, T> {
        let database = Arc::clone(&self.database);
        let step = move || step(&mut database.lock().unwrap_or_else(PoisonError::into_inner));
        Box::pin(async move {
            let done = tokio::task::spawn_blocking(step).await;
            let done = done.unwrap_or_else(|error| Err(Failure::new(StoreErrorKind::Unreachable, error)));
            done.map_err(|failure| failure.during(name, &self.location))
        })
    }
}

impl Store for SqliteStore {
    fn location(&self) -> String {
        self.location.clone()
    }

    fn look<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Look> {
        let key = key.to_owned();
        self.step("look", move |database| {
            let record = read(database, &key, first_line)?;
            Ok(Record::look(record.as_ref(), None, Timestamp::now()))
        })
    }

    fn swap<'a>(&'a self, key: &'a str, swap: &'a Swap) -> StoreFuture<'a, SwapReply> {
        let (key, swap) = (key.to_owned(), swap.clone());
        self.step("swap", move |database| {
            let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let mut record = read(&transaction, &key, Record::from_text)?;
            let reply = Record::swap(&mut record, None, Timestamp::now(), &swap);
            // A refused swap leaves the record as it was, and writes nothing.
            if let SwapReply::Swapped(_) = reply {
                write(&transaction, &key, record.as_ref())?;
                transaction.commit()?;
            }
            Ok(reply)
        })
    }

    fn list<'a>(&'a self, page: Option<&'a str>) -> StoreFuture<'a, Page> {
        let after = page.unwrap_or_default().to_owned();
        self.step("list", move |database| {
            let mut query = database.prepare("SELECT key, record FROM job WHERE key > ?1 ORDER BY key")?;
            let rows = query.query_map([after], |row| Ok((row.get(0)?, row.get(1)?)))?;
            let rows = rows.take(PAGE).collect::<Result<Vec<(String, String)>, _>>()?;
            let next = rows.last().filter(|_| rows.len() == PAGE).map(|(key, _)| key.clone());
            // A record that cannot be read does not hide the others.
            let found = rows.into_iter().filter_map(|(key, text)| Some((key, first_line(&text).ok()?)));
            let looks = found.map(|(key, record)| (key, Record::look(Some(&record), None, Timestamp::now())));
            Ok(Page { keys: looks.collect(), next })
        })
    }

    fn records<'a>(&'a self, keys: &'a [String], newest: usize) -> StoreFuture<'a, Vec<JobRecords>> {
        let keys = keys.to_vec();
        self.step("records", move |database| {
            let record = |key: &String| read(database, key, Record::from_text);
            keys.iter()
                .map(|key| Ok(record(key)?.map(|it| it.records.newest(newest)).unwrap_or_default()))
                .collect()
        })
    }

    /// Every server does this every few seconds, so it also deletes what has expired.
    fn put_note<'a>(&'a self, topic: Topic, note: &'a Note, ttl: Duration) -> StoreFuture<'a, Timestamp> {
        let note = note.clone();
        self.step("put_note", move |database| {
            let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let now = Timestamp::now();
            // With a ttl of zero it has expired, and is deleted at once.
            let sql = "REPLACE INTO note (topic, name, text, expires) VALUES (?1, ?2, ?3, ?4)";
            let expires = (now + ttl).as_micros();
            transaction.execute(sql, params![topic.as_str(), note.name, &*note.text, expires])?;
            transaction.execute("DELETE FROM note WHERE expires <= ?1", [now.as_micros()])?;
            transaction.execute("DELETE FROM job WHERE expires <= ?1", [now.as_micros()])?;
            transaction.commit()?;
            Ok(now)
        })
    }

    fn notes(&self, topic: Topic) -> StoreFuture<'_, Notes> {
        self.step("notes", move |database| {
            let now = Timestamp::now();
            let sql = "SELECT name, text FROM note WHERE topic = ?1 AND expires > ?2 ORDER BY name";
            let mut query = database.prepare(sql)?;
            let rows = query.query_map(params![topic.as_str(), now.as_micros()], |row| {
                Ok(Note { name: row.get(0)?, text: row.get::<_, String>(1)?.into() })
            })?;
            Ok(Notes { now, notes: rows.collect::<Result<_, _>>()? })
        })
    }
}

fn read(
    database: &Connection,
    key: &str,
    parse: impl FnOnce(&str) -> Result<Record, UnreadableRecord>,
) -> Result<Option<Record>, Failure> {
    let row = database.query_row("SELECT record FROM job WHERE key = ?1", [key], |row| row.get(0));
    let record = row.optional()?.map(|text: String| parse(&text)).transpose();
    record.map_err(|why| Failure::new(StoreErrorKind::Unreadable, format!("the record of {key} {why}")))
}

fn write(database: &Connection, key: &str, record: Option<&Record>) -> Result<(), Failure> {
    let Some(record) = record else {
        return Ok(database.execute("DELETE FROM job WHERE key = ?1", [key]).map(drop)?);
    };
    let row = params![key, record.to_text(), record.state.expires.map(Timestamp::as_micros)];
    Ok(database.execute("REPLACE INTO job (key, record, expires) VALUES (?1, ?2, ?3)", row).map(drop)?)
}

/// All that a look needs.
fn first_line(text: &str) -> Result<Record, UnreadableRecord> {
    Record::from_first_line(text.lines().next().unwrap_or_default())
}

/// A failed step, before the store adds the step's name and its location.
struct Failure {
    kind: StoreErrorKind,
    cause: Box<dyn std::error::Error + Send + Sync>,
}

impl Failure {
    fn new(kind: StoreErrorKind, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self { kind, cause: cause.into() }
    }

    fn during(self, step: &'static str, location: &str) -> StoreError {
        StoreError::new(self.kind, step, location, self.cause)
    }
}

impl From<rusqlite::Error> for Failure {
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
