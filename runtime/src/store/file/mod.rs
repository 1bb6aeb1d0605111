//! A store in a folder: for servers on one machine, without anything to install.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, timeout};

use self::disk::FileError;
use self::folder::Folder;
use self::queue::DiskQueues;
use super::{
    Finding, JobRecords, Look, Note, Notes, Page, Store, StoreError, StoreErrorKind, StoreFuture, Swap,
    SwapReply, Topic,
};
use crate::Timestamp;

pub(super) mod diagnosis;
mod disk;
mod folder;
mod key_files;
mod name;
mod notes;
mod queue;
#[cfg(test)]
mod tests;

const LOCK_TIMEOUT: Duration = Duration::from_secs(1);
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(8);

/// A folder on a local disk that every server on this machine opens.
///
/// Each key has a record file, which is replaced as a whole, and a lock file, under which it is replaced. A write that was
/// acknowledged survives a killed process and a power cut. Notes, such as heartbeats, survive only a killed process; they
/// are repeated anyway. A folder on a network share is not supported: locks and clocks differ between machines.
///
/// A process that is stopped (`SIGSTOP`, a debugger) in the middle of a swap keeps the lock of that key. Swaps of other
/// processes on the key then time out, with an error that names the lock file, until the process continues or is killed.
/// Looks, and other keys, are not affected.
///
/// Its methods need a Tokio runtime with time enabled.
#[derive(Clone)]
pub struct FileStore {
    folder: Arc<Folder>,
    lock_timeout: Duration,
    queue: Arc<DiskQueues>,
}

impl FileStore {
    /// Opens a folder, and creates it if it is missing. Namespaces have separate keys.
    pub fn open(folder: impl Into<PathBuf>, namespace: Option<&str>) -> Result<Self, StoreError> {
        let given = folder.into();
        // A later change of the working directory must not move the store.
        let mut path = std::path::absolute(&given).unwrap_or(given);
        if let Some(namespace) = namespace {
            path.push(format!("{}.namespace", name::encode(namespace)));
        }
        let folder = Arc::new(Folder::new(path));
        let store = Self { folder, lock_timeout: LOCK_TIMEOUT, queue: Arc::default() };
        store.folder.prepare().map_err(|failure| store.error("open", failure))?;
        Ok(store)
    }

    /// Sets the time for which a swap waits for swaps of other processes on the same key; one second by default.
    #[must_use]
    pub fn with_lock_timeout(mut self, timeout: Duration) -> Self {
        self.lock_timeout = timeout;
        self
    }

    /// Returns the path of a key's record. The first swap creates the file.
    pub fn state_file(&self, key: &str) -> PathBuf {
        self.folder.key(key).record
    }

    fn error(&self, step: &'static str, FileError { kind, cause }: FileError) -> StoreError {
        StoreError::new(kind, step, self.location(), cause)
    }

    /// Runs a request that needs neither a lock nor a flush.
    fn unlocked<'a, T: Send + 'static>(
        &'a self,
        name: &'static str,
        step: impl FnOnce(&Folder) -> Result<T, FileError> + Send + 'static,
    ) -> StoreFuture<'a, T> {
        Box::pin(async move {
            let room = self.queue.looks.room().await;
            self.on_a_thread(room, step).await.map_err(|failure| self.error(name, failure))
        })
    }

    /// Each attempt finds the lock free and does all its work on one blocking thread, or gives the thread back: the lock
    /// of a stopped process blocks no thread of the others.
    async fn locked(&self, key: &str, swap: &Swap) -> Result<SwapReply, FileError> {
        let (lane, lock) = (self.queue.lane_of(swap), self.folder.key(key).lock);
        let mut deadline = Instant::now() + self.lock_timeout;
        let turn = timeout(self.lock_timeout, lane.turns.take(key)).await.map_err(|_| still_locked(&lock))?;
        // If the caller stops waiting, the mutex stays locked until the work ends.
        let work = Arc::new((key.to_owned(), swap.clone(), turn));
        let mut pause = SHORTEST_PAUSE;
        loop {
            let queued = Instant::now();
            let room = lane.room().await;
            // Time in the disk's queue does not count.
            deadline += queued.elapsed();
            let work = Arc::clone(&work);
            let attempt = move |folder: &Folder| folder.swap(&work.0, &work.1);
            if let Some(reply) = self.on_a_thread(room, attempt).await? {
                return Ok(reply);
            }
            if Instant::now() >= deadline {
                return Err(still_locked(&lock));
            }
            sleep(pause.min(deadline - Instant::now())).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Runs to its end, even if the caller does not wait for it.
    async fn on_a_thread<T: Send + 'static>(
        &self,
        room: OwnedSemaphorePermit,
        step: impl FnOnce(&Folder) -> Result<T, FileError> + Send + 'static,
    ) -> Result<T, FileError> {
        let folder = Arc::clone(&self.folder);
        let done = spawn_blocking(move || {
            let _room = room;
            step(&folder)
        });
        done.await.unwrap_or_else(|error| {
            let cause = format!("the step was interrupted, as when its runtime shuts down ({error})");
            Err(FileError { kind: StoreErrorKind::Unreachable, cause })
        })
    }
}

fn still_locked(lock: &Path) -> FileError {
    let lock = lock.display();
    let cause = format!(
        "{lock} stayed locked; a stopped or stuck process may hold it (`fuser {lock}` shows which); continue or kill that \
         process"
    );
    FileError { kind: StoreErrorKind::TimedOut, cause }
}

impl Store for FileStore {
    fn location(&self) -> String {
        format!("file://{}", self.folder.path.display())
    }

    fn look<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Look> {
        let key = key.to_owned();
        self.unlocked("look", move |folder| folder.look(&key))
    }

    fn swap<'a>(&'a self, key: &'a str, swap: &'a Swap) -> StoreFuture<'a, SwapReply> {
        Box::pin(async move { self.locked(key, swap).await.map_err(|failure| self.error("swap", failure)) })
    }

    fn list<'a>(&'a self, page: Option<&'a str>) -> StoreFuture<'a, Page> {
        let page = page.map(str::to_owned);
        self.unlocked("list", move |folder| folder.list(page.as_deref()))
    }

    fn records<'a>(&'a self, keys: &'a [String], newest: usize) -> StoreFuture<'a, Vec<JobRecords>> {
        let keys = keys.to_vec();
        self.unlocked("records", move |folder| {
            keys.iter().map(|key| Ok(folder.records(key)?.newest(newest))).collect()
        })
    }

    fn put_note<'a>(&'a self, topic: Topic, note: &'a Note, ttl: Duration) -> StoreFuture<'a, Timestamp> {
        let note = note.clone();
        self.unlocked("put_note", move |folder| folder.notes(topic).put(note, ttl))
    }

    fn notes(&self, topic: Topic) -> StoreFuture<'_, Notes> {
        self.unlocked("notes", move |folder| folder.notes(topic).list())
    }

    fn diagnose<'a>(&'a self, jobs: &'a [String]) -> StoreFuture<'a, Vec<Finding>> {
        let jobs = jobs.to_vec();
        self.unlocked("diagnose", move |folder| Ok(diagnosis::look(&folder.path, &jobs)))
    }
}
