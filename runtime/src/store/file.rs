//! A store in a folder: for servers on one machine, without anything to install.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use self::disk::Failure;
use self::key_files::KeyFiles;
use self::notes::NoteFolder;
use self::queue::{Lane, Queue};
use self::sweep::Sweep;
use super::{
    Finding, JobRecords, Look, Note, Notes, Page, Store, StoreError, StoreErrorKind, StoreFuture, Swap,
    SwapReply, Topic,
};
use crate::Timestamp;

mod diagnosis;
mod disk;
mod folder;
mod key_files;
mod name;
mod notes;
mod queue;
mod sweep;

const LOCK_TIMEOUT: Duration = Duration::from_secs(1);
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(8);
/// Keys on a page of the list.
const PAGE: usize = 1_000;

/// A folder on a local disk that every server on this machine opens.
///
/// Each key has a record file, which is replaced as a whole, and a lock file, under which it is replaced. A write that was
/// acknowledged survives a killed process and a power cut. Notes, such as heartbeats, survive only the former; they are
/// repeated anyway. A folder on a network share is not supported: locks and clocks differ there from machine to machine.
///
/// A process that is stopped (`SIGSTOP`, a debugger) in the middle of a swap keeps the lock of that key. Swaps of other
/// processes on the key then time out, with an error that names the lock file, until the process continues or is killed.
/// Looks, and other keys, are not affected.
///
/// Its methods need a Tokio runtime with time enabled.
#[derive(Clone)]
pub struct FileStore {
    folder: Arc<Path>,
    lock_timeout: Duration,
    shared: Arc<Shared>,
}

/// What the clones of a store share.
struct Shared {
    queue: Queue,
    keys: Sweep,
    servers: Sweep,
    requests: Sweep,
}

impl FileStore {
    /// Opens a folder, and creates it if it is missing. A namespace has keys of its own.
    pub fn open(folder: impl Into<PathBuf>, namespace: Option<&str>) -> Result<Self, StoreError> {
        let given = folder.into();
        // A later change of the working directory must not move the store.
        let mut folder = std::path::absolute(&given).unwrap_or(given);
        if let Some(namespace) = namespace {
            folder.push(format!("{}.namespace", name::encode(namespace)));
        }
        let [keys, servers, requests] = Default::default();
        let shared = Arc::new(Shared { queue: Queue::new(), keys, servers, requests });
        let store = Self { folder: folder.into(), lock_timeout: LOCK_TIMEOUT, shared };
        match folder::prepare(&store.folder) {
            Ok(()) => Ok(store),
            Err(failure) => Err(store.error("open", failure)),
        }
    }

    /// Sets how long a swap waits for other processes' swaps on the same key; a second unless set.
    #[must_use]
    pub fn with_lock_timeout(mut self, timeout: Duration) -> Self {
        self.lock_timeout = timeout;
        self
    }

    /// The file that holds the record of a key; it appears with the first swap.
    pub fn state_file(&self, key: &str) -> PathBuf {
        KeyFiles::new(&self.folder, key).record
    }

    fn error(&self, step: &'static str, Failure { kind, cause }: Failure) -> StoreError {
        StoreError::new(kind, step, self.location(), cause)
    }

    /// A step that needs neither a lock nor a flush.
    fn unlocked<'a, T: Send + 'static>(
        &'a self,
        name: &'static str,
        step: impl FnOnce(&Path, &Shared) -> Result<T, Failure> + Send + 'static,
    ) -> StoreFuture<'a, T> {
        Box::pin(async move {
            let room = self.shared.queue.room(Lane::Looks).await;
            let (folder, shared) = (Arc::clone(&self.folder), Arc::clone(&self.shared));
            let done = on_a_thread(move || {
                let _room = room;
                step(&folder, &shared)
            });
            done.await.map_err(|failure| self.error(name, failure))
        })
    }

    /// Each attempt finds the lock free and does all its work on one blocking thread, or gives the thread back: the lock
    /// of a stopped process blocks no thread of the others.
    async fn locked(&self, key: &str, swap: &Swap) -> Result<SwapReply, Failure> {
        let (queue, lane) = (&self.shared.queue, Lane::of(swap));
        let lock = KeyFiles::new(&self.folder, key).lock;
        let request = Arc::new((key.to_owned(), swap.clone()));
        let mut deadline = Instant::now() + self.lock_timeout;
        let turn = queue.turn(lane, key, self.lock_timeout).await;
        let mut turn = turn.ok_or_else(|| still_locked(&lock))?;
        let mut pause = SHORTEST_PAUSE;
        loop {
            let queued = Instant::now();
            let room = queue.room(lane).await;
            // A crowd on this server's disk says nothing about the lock.
            deadline += queued.elapsed();
            let (store, request) = (self.clone(), Arc::clone(&request));
            // Turn and room go along: if the caller is gone, they last as long as the work.
            let attempt = move || {
                let _room = room;
                Ok((store.attempt(&request.0, &request.1)?, turn))
            };
            match on_a_thread(attempt).await? {
                (Some(reply), _) => return Ok(reply),
                (None, kept) => turn = kept,
            }
            if Instant::now() >= deadline {
                return Err(still_locked(&lock));
            }
            sleep(pause.min(deadline - Instant::now())).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// `None` if another process has the lock. A new key pays for the removal of old ones.
    fn attempt(&self, key: &str, swap: &Swap) -> Result<Option<SwapReply>, Failure> {
        let reply = KeyFiles::new(&self.folder, key).swap(key, swap)?;
        if swap.expected.is_none() && matches!(reply, Some(SwapReply::Swapped(_))) {
            self.shared.keys.sweep_keys(&self.folder, Timestamp::now());
        }
        Ok(reply)
    }
}

/// Runs to its end, even if the caller does not wait for it.
async fn on_a_thread<T: Send + 'static>(
    step: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    spawn_blocking(step).await.unwrap_or_else(|error| {
        let cause = format!("the step was interrupted, as when its runtime shuts down ({error})");
        Err(Failure { kind: StoreErrorKind::Unreachable, cause })
    })
}

fn still_locked(lock: &Path) -> Failure {
    let lock = lock.display();
    let cause = format!(
        "{lock} stayed locked; a stopped or stuck process may hold it (`fuser {lock}` shows which); continue or kill that \
         process"
    );
    Failure { kind: StoreErrorKind::TimedOut, cause }
}

fn list(folder: &Path, page: Option<&str>) -> Result<Page, Failure> {
    let entries = fs::read_dir(folder).map_err(|error| Failure::io("open", folder, &error))?;
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let files = names.filter_map(|name| KeyFiles::of_record_file(folder, &name));
    let mut files: Vec<_> = files.filter(|files| page.is_none_or(|last| files.name() > last)).collect();
    files.sort_by(|a, b| a.name().cmp(b.name()));
    let next = (files.len() > PAGE).then(|| files[PAGE - 1].name().to_owned());
    // A record that cannot be read does not hide the others.
    let looks = files.iter().take(PAGE).filter_map(|files| files.look_at_found().ok()?);
    Ok(Page { keys: looks.collect(), next })
}

impl Store for FileStore {
    fn location(&self) -> String {
        format!("file://{}", self.folder.display())
    }

    fn look<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Look> {
        let key = key.to_owned();
        self.unlocked("look", move |folder, _| KeyFiles::new(folder, &key).look(&key))
    }

    fn swap<'a>(&'a self, key: &'a str, swap: &'a Swap) -> StoreFuture<'a, SwapReply> {
        Box::pin(async move { self.locked(key, swap).await.map_err(|failure| self.error("swap", failure)) })
    }

    fn list<'a>(&'a self, page: Option<&'a str>) -> StoreFuture<'a, Page> {
        let page = page.map(str::to_owned);
        self.unlocked("list", move |folder, _| list(folder, page.as_deref()))
    }

    fn records<'a>(&'a self, key: &'a str) -> StoreFuture<'a, JobRecords> {
        let key = key.to_owned();
        self.unlocked("records", move |folder, _| {
            let record = KeyFiles::new(folder, &key).read(&key)?;
            Ok(record.map(|record| record.records()).unwrap_or_default())
        })
    }

    fn put_note<'a>(&'a self, topic: Topic, note: &'a Note, ttl: Duration) -> StoreFuture<'a, Timestamp> {
        let note = note.clone();
        self.unlocked("put_note", move |folder, shared| {
            let (notes, now) = (NoteFolder::new(folder, topic), Timestamp::now());
            if ttl.is_zero() {
                notes.remove(&note.name)?;
            } else {
                notes.put(&note, now.plus(ttl))?;
            }
            let sweep = match topic {
                Topic::Servers => &shared.servers,
                Topic::Requests => &shared.requests,
            };
            sweep.sweep_notes(notes.path(), now);
            Ok(now)
        })
    }

    fn notes(&self, topic: Topic) -> StoreFuture<'_, Notes> {
        self.unlocked("notes", move |folder, _| {
            let now = Timestamp::now();
            Ok(Notes { now, notes: NoteFolder::new(folder, topic).list(now)? })
        })
    }

    fn diagnose<'a>(&'a self, jobs: &'a [String]) -> StoreFuture<'a, Vec<Finding>> {
        let jobs = jobs.to_vec();
        self.unlocked("diagnose", move |folder, _| Ok(diagnosis::look(folder, &jobs)))
    }
}
