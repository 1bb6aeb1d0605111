//! The connections of a store: one that writes, and a few that read. Everything here blocks.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use super::errors::{SqliteError, SqliteResult};
use crate::store::StoreErrorKind;
use crate::util::backoff::up_to;
use crate::util::lock;

/// Longest time for which processes that create the same database wait for each other.
const SETUP_TIMEOUT: Duration = Duration::from_secs(5);

/// Attempts to get a lock that another process has, with a pause of 1–4 ms between two: about 0.15 s. SQLite's own pauses grow to 0.1 s, and let a process starve among many.
const ATTEMPTS: i32 = 60;

/// Number of requests that read at the same time.
pub(super) const READERS: usize = 4;

pub(super) struct Database {
    pub(super) path: PathBuf,
    writer: Mutex<Option<OpenDatabase>>,
    /// Connections that no request uses.
    readers: Mutex<Vec<OpenDatabase>>,
    /// The write-ahead log of the database, and of which file it is.
    log: Mutex<Option<(FileIdentity, LogIdentity)>>,
}

/// A connection, and the file that it leads to.
struct OpenDatabase {
    connection: Connection,
    file: FileIdentity,
}

impl Database {
    /// Opens the database, and creates it if it is missing.
    pub(super) fn create(path: PathBuf) -> SqliteResult<Self> {
        let deadline = Instant::now() + SETUP_TIMEOUT;
        let writer = loop {
            match set_up(&path) {
                Err(error) if error.is_busy() && Instant::now() < deadline => {
                    sleep(up_to(Duration::from_millis(20)));
                }
                writer => break writer?,
            }
        };
        Ok(Self { path, writer: Mutex::new(Some(writer)), readers: Mutex::default(), log: Mutex::default() })
    }

    /// Reads, without waiting for a process that writes.
    pub(super) fn read<T>(&self, step: impl FnOnce(&Connection) -> SqliteResult<T>) -> SqliteResult<T> {
        let idle = lock(&self.readers).pop();
        let reader = match idle {
            Some(reader) if reader.file.is_at(&self.path) => reader,
            _ => OpenDatabase::open(&self.path).map_err(|error| self.reason(error))?,
        };
        let result = step(&reader.connection);
        let log = self.check_log(reader.file);
        lock(&self.readers).push(reader);
        log.and(result)
    }

    /// Writes in one transaction, which has the database's write lock before the step begins: what it reads, the clock
    /// included, it reads after every wait.
    ///
    /// Nothing is written if the step returns an error.
    pub(super) fn write<T>(&self, step: impl FnOnce(&Transaction<'_>) -> SqliteResult<T>) -> SqliteResult<T> {
        let mut writer = lock(&self.writer);
        let is_there = writer.as_ref().is_some_and(|writer| writer.file.is_at(&self.path));
        if !is_there {
            // A file that was removed is not created again: an empty store would let ticks run twice.
            *writer = None;
            *writer = Some(OpenDatabase::open(&self.path)?);
        }
        let Some(open) = writer.as_mut() else { return Err(SqliteError::moved(&self.path)) };
        let transaction = open.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        self.check_log(open.file)?;
        let done = step(&transaction)?;
        transaction.commit()?;
        self.check_log(open.file)?;
        // Another process may have begun with the new file before this one wrote to the old one.
        if !open.file.is_at(&self.path) {
            *writer = None;
            return Err(SqliteError::moved(&self.path));
        }
        Ok(done)
    }
}

impl Database {
    /// Returns why a connection could not be opened, if it is the log.
    fn reason(&self, error: SqliteError) -> SqliteError {
        FileIdentity::of(&self.path).and_then(|file| self.check_log(file).err()).unwrap_or(error)
    }

    /// Returns an error if the write-ahead log, or its index, is not the one that this process has opened: SQLite continues with
    /// files that were removed, while a process that starts creates others. The connections stay, and so does the error: all
    /// connections of a process share the index, so another one would be no better.
    ///
    /// Called during or after a transaction, when both files exist.
    fn check_log(&self, file: FileIdentity) -> SqliteResult<()> {
        let (found, mut known) = (LogIdentity::beside(&self.path), lock(&self.log));
        match &mut *known {
            Some((of, log)) if *of == file => {
                if log.is_replaced_by(&found) {
                    Err(SqliteError::log_removed(&self.path))
                } else {
                    Ok(())
                }
            }
            unknown => {
                *unknown = Some((file, found));
                Ok(())
            }
        }
    }
}

impl OpenDatabase {
    /// Opens a database that exists.
    fn open(path: &Path) -> SqliteResult<Self> {
        Self::open_with(path, OpenFlags::empty())
    }

    fn open_with(path: &Path, flags: OpenFlags) -> SqliteResult<Self> {
        let flags = flags | OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let before = FileIdentity::of(path);
        let mut connection = Connection::open_with_flags(path, flags)?;
        let file = FileIdentity::of(path).ok_or_else(|| SqliteError::moved(path))?;
        if before.is_some_and(|before| before != file) {
            return Err(SqliteError::moved(path));
        }
        connection.busy_handler(Some(pause))?;
        // A write that was acknowledged survives a power cut.
        connection.pragma_update(None, "synchronous", "FULL")?;
        Ok(Self { connection, file })
    }
}

/// Pauses before another attempt to get a lock.
fn pause(attempts: i32) -> bool {
    let is_time = attempts < ATTEMPTS;
    if is_time {
        sleep(Duration::from_millis(1) + up_to(Duration::from_millis(3)));
    }
    is_time
}

/// Creates what is missing. A database that is complete is not written to.
fn set_up(path: &Path) -> SqliteResult<OpenDatabase> {
    let mut open = OpenDatabase::open_with(path, OpenFlags::SQLITE_OPEN_CREATE)?;
    let mode = journal_mode(&open.connection)?;
    if mode != "wal" {
        // Where it is not possible, the mode stays what it was: the diagnosis reports it.
        let is_read_only = open.connection.is_readonly("main")?;
        if !is_read_only {
            open.connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
        }
    }
    let made = "SELECT count(*) FROM sqlite_schema
        WHERE name IN ('job_lock', 'job_fence', 'job_record', 'job_note', 'job_lock_deleted', 'job_fence_deleted')";
    let made: i64 = open.connection.query_row(made, [], |row| row.get(0))?;
    if made < 6 {
        let transaction = open.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let created = transaction.execute_batch(include_str!("tables.sql"));
        created.map_err(|error| SqliteError::from(error).during("the tables cannot be created"))?;
        transaction.commit()?;
    }
    // Fails if the tables were there and are not these.
    open.connection.prepare("SELECT version, state, expires FROM job_lock")?;
    Ok(open)
}

pub(super) fn journal_mode(connection: &Connection) -> SqliteResult<String> {
    Ok(connection.pragma_query_value(None, "journal_mode", |row| row.get(0))?)
}

/// The identity of a file, whatever its name.
///
/// SQLite continues with a file that was removed or replaced, while a process that starts creates another one, or opens it: two
/// stores at one path. The file is not opened for this: closing it again would end the locks of the whole process.
#[derive(Clone, Copy, PartialEq, Eq)]
struct FileIdentity(u64, u64);

/// The write-ahead log and its index, if they exist.
struct LogIdentity([Option<FileIdentity>; 2]);

impl LogIdentity {
    fn beside(path: &Path) -> Self {
        // Beside the file, not beside a link to it.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        Self(["-wal", "-shm"].map(|end| {
            let mut name = path.clone().into_os_string();
            name.push(end);
            FileIdentity::of(Path::new(&name))
        }))
    }

    /// Takes what was not known, because the database was not in WAL mode yet.
    fn is_replaced_by(&mut self, found: &Self) -> bool {
        let mut both = self.0.iter_mut().zip(&found.0);
        both.any(|(known, found)| match known {
            Some(_) => known != found,
            None => {
                *known = *found;
                false
            }
        })
    }
}

impl FileIdentity {
    #[cfg(unix)]
    fn of(path: &Path) -> Option<Self> {
        use std::os::unix::fs::MetadataExt;

        let metadata = std::fs::metadata(path).ok()?;
        Some(Self(metadata.dev(), metadata.ino()))
    }

    /// An open file can be neither removed nor replaced.
    #[cfg(not(unix))]
    fn of(_path: &Path) -> Option<Self> {
        Some(Self(0, 0))
    }

    fn is_at(&self, path: &Path) -> bool {
        Self::of(path).as_ref() == Some(self)
    }
}

/// The error of a request whose thread was interrupted.
pub(super) fn interrupted(error: &tokio::task::JoinError) -> SqliteError {
    SqliteError::new(
        StoreErrorKind::Unreachable,
        format!("the step was interrupted, as when its runtime shuts down ({error})"),
    )
}
