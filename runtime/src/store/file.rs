//! A store in a folder: for servers on one machine, without anything to install.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use self::disk::{Attempt, Failure, KeyFiles};
use self::queue::{Lane, Queue};
use self::sweep::Sweep;
use super::model::{self, State};
use super::{
    Announcement, Claim, ClaimReply, Ending, ExtendReply, FindingsFuture, ForgetReply, HeldLock, History,
    Lease, ReleaseReply, RequestHint, Requested, RunRequest, ServerInfo, Stamped, Store, StoreError,
    StoreErrorKind, StoreFuture, Verdict,
};
use crate::Timestamp;

mod diagnosis;
mod disk;
mod fleet;
mod folder;
mod name;
mod queue;
mod sweep;

const LOCK_TIMEOUT: Duration = Duration::from_secs(1);
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(8);

/// A folder on a local disk that every server on this machine opens.
///
/// Each key has a state file, which is replaced as a whole, and a lock file, which is never deleted. What
/// was acknowledged survives a killed process and a power cut, but for the servers' announcements, which
/// are repeated anyway. A folder on a network share is not supported: locks and clocks differ there from
/// machine to machine.
///
/// Its methods need a Tokio runtime with time enabled.
#[derive(Clone)]
pub struct FileStore {
    folder: Arc<Path>,
    lock_timeout: Duration,
    queue: Arc<Queue>,
    sweep: Arc<Sweep>,
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
        let store = Self {
            folder: folder.into(),
            lock_timeout: LOCK_TIMEOUT,
            queue: Arc::new(Queue::new()),
            sweep: Arc::default(),
        };
        match folder::prepare(&store.folder) {
            Ok(()) => Ok(store),
            Err(failure) => Err(store.error("open", failure)),
        }
    }

    /// How long a step waits for other processes' steps on the same key; a second unless set.
    #[must_use]
    pub fn with_lock_timeout(mut self, timeout: Duration) -> Self {
        self.lock_timeout = timeout;
        self
    }

    /// The file that holds what is known about a key; it appears with the first claim.
    pub fn state_file(&self, key: &str) -> PathBuf {
        KeyFiles::new(&self.folder, key).state
    }

    fn error(&self, step: &'static str, Failure { kind, cause }: Failure) -> StoreError {
        StoreError::new(kind, step, self.location(), cause)
    }

    /// Each attempt finds the lock free and does all its work on one blocking thread, or gives the thread
    /// back: a process that was stopped with the lock in its hands costs nobody a thread.
    fn step<'a, T, F>(
        &'a self,
        step: &'static str,
        lane: Lane,
        key: &'a str,
        mut transition: F,
    ) -> StoreFuture<'a, T>
    where
        T: Send + 'static,
        F: FnOnce(&mut State, Timestamp) -> (T, bool) + Send + 'static,
    {
        Box::pin(async move {
            let files = Arc::new(KeyFiles::new(&self.folder, key));
            let mut deadline = Instant::now() + self.lock_timeout;
            let turn = self.queue.turn(lane, key, self.lock_timeout).await;
            let mut turn = turn.ok_or_else(|| self.error(step, stuck(&files.lock)))?;
            let mut pause = SHORTEST_PAUSE;
            loop {
                let queued = Instant::now();
                let room = self.queue.room(lane).await;
                // A crowd on this server's disk says nothing about the lock.
                deadline += queued.elapsed();
                let attempt = {
                    let (files, sweep) = (Arc::clone(&files), Arc::clone(&self.sweep));
                    // Turn and room go along: if the caller is gone, they last as long as the work.
                    move || {
                        let is_new = !files.state.exists();
                        let attempt = files.attempt(transition);
                        if is_new && files.state.exists() {
                            sweep.go_on(files.folder(), Timestamp::now());
                        }
                        (attempt, turn, room)
                    }
                };
                let (attempt, held, _) =
                    spawn_blocking(attempt).await.map_err(|error| self.error(step, broken_off(&error)))?;
                match attempt.map_err(|failure| self.error(step, failure))? {
                    Attempt::Done(stamped) => return Ok(stamped),
                    Attempt::Busy(back) => (transition, turn) = (back, held),
                }
                if Instant::now() >= deadline {
                    return Err(self.error(step, stuck(&files.lock)));
                }
                sleep(pause.min(deadline - Instant::now())).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        })
    }

    /// A look at the folder, or a note put into it, that needs neither a lock nor a flush.
    fn look<'a, T: Send + 'static>(
        &'a self,
        step: &'static str,
        look: impl FnOnce(&Path, Timestamp) -> Result<T, Failure> + Send + 'static,
    ) -> StoreFuture<'a, T> {
        Box::pin(async move {
            let room = self.queue.room(Lane::Newcomers).await;
            let folder = Arc::clone(&self.folder);
            let looked = spawn_blocking(move || {
                let _room = room;
                std::fs::read_dir(&folder).map_err(|error| Failure::io("open", &folder, &error))?;
                let at = Timestamp::now();
                Ok(Stamped { reply: look(&folder, at)?, at })
            });
            let looked = looked.await.map_err(|error| self.error(step, broken_off(&error)))?;
            looked.map_err(|failure| self.error(step, failure))
        })
    }
}

fn stuck(lock: &Path) -> Failure {
    let lock = lock.display();
    let cause = format!(
        "{lock} stayed locked; a stopped or stuck process may hold it (`fuser {lock}` tells which), and it \
         must go on or be killed"
    );
    Failure { kind: StoreErrorKind::TimedOut, cause }
}

fn broken_off(error: &tokio::task::JoinError) -> Failure {
    let cause = format!("the step broke off, as when its runtime shuts down ({error})");
    Failure { kind: StoreErrorKind::Unreachable, cause }
}

impl Store for FileStore {
    fn location(&self) -> String {
        format!("file://{}", self.folder.display())
    }

    fn ping(&self) -> StoreFuture<'_, ()> {
        self.look("ping", |_, _| Ok(()))
    }

    fn claim<'a>(&'a self, key: &'a str, claim: &'a Claim) -> StoreFuture<'a, Verdict> {
        let claim = claim.clone();
        self.step("claim", Lane::Newcomers, key, move |state, now| {
            let verdict = model::claim(state, now, &claim);
            let won = matches!(verdict.decision, ClaimReply::Won(_));
            (verdict, won)
        })
    }

    fn extend<'a>(&'a self, key: &'a str, lease: &'a Lease) -> StoreFuture<'a, ExtendReply> {
        let lease = lease.clone();
        self.step("extend", Lane::Holders, key, move |state, now| {
            let reply = model::extend(state, now, &lease);
            (reply, reply != ExtendReply::Lost)
        })
    }

    fn release<'a>(
        &'a self,
        key: &'a str,
        lease: &'a Lease,
        end: &'a Ending,
    ) -> StoreFuture<'a, ReleaseReply> {
        let (lease, end) = (lease.clone(), end.clone());
        self.step("release", Lane::Holders, key, move |state, now| {
            (model::release(state, now, &lease, &end), true)
        })
    }

    fn break_lock<'a>(&'a self, key: &'a str, remember: usize) -> StoreFuture<'a, Vec<HeldLock>> {
        let name = key.to_owned();
        self.step("break_lock", Lane::Holders, key, move |state, now| {
            (model::break_lock(state, now, &name, remember), true)
        })
    }

    fn locks(&self) -> StoreFuture<'_, Vec<HeldLock>> {
        self.look("locks", |folder, now| {
            let entries = std::fs::read_dir(folder).map_err(|error| Failure::io("open", folder, &error))?;
            let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
            let files = names.filter_map(|name| KeyFiles::of_state_file(folder, &name));
            // What a newer version wrote cannot be read; the others still can.
            let states = files.filter_map(|files| Some((files.key_on_file()?, files.read().ok()?)));
            Ok(states.flat_map(|(key, state)| model::held(&state, now, &key)).collect())
        })
    }

    fn set_paused<'a>(&'a self, key: &'a str, paused: bool) -> StoreFuture<'a, ()> {
        self.step("set_paused", Lane::Newcomers, key, move |state, now| {
            model::set_paused(state, now, paused);
            ((), true)
        })
    }

    fn reset<'a>(&'a self, key: &'a str) -> StoreFuture<'a, ()> {
        self.step("reset", Lane::Newcomers, key, |state, now| {
            model::reset(state, now);
            ((), true)
        })
    }

    fn forget<'a>(&'a self, key: &'a str, quiet: Duration) -> StoreFuture<'a, ForgetReply> {
        self.step("forget", Lane::Newcomers, key, move |state, now| {
            let reply = model::forget(state, now, quiet);
            let forgotten = reply == ForgetReply::Forgotten;
            (reply, forgotten)
        })
    }

    fn request<'a>(&'a self, key: &'a str, request: &'a RunRequest) -> StoreFuture<'a, Requested> {
        Box::pin(async move {
            let request = request.clone();
            let transition = move |state: &mut State, now| (model::request(state, now, &request), true);
            let counts = self.step("request", Lane::Newcomers, key, transition).await?;
            // Only now: whoever reads the hint finds the request.
            let hint = RequestHint { key: key.to_owned(), id: counts.reply.id.clone() };
            let until = counts.reply.until;
            self.look("request", move |folder, _| fleet::hint(folder, until, &hint)).await?;
            Ok(counts)
        })
    }

    fn history<'a>(&'a self, key: &'a str) -> StoreFuture<'a, History> {
        let key = key.to_owned();
        self.look("history", move |folder, now| Ok(model::history(&KeyFiles::new(folder, &key).read()?, now)))
    }

    fn announce<'a>(&'a self, announcement: &'a Announcement) -> StoreFuture<'a, Vec<RequestHint>> {
        let Announcement { server, about, ttl } = announcement.clone();
        self.look("announce", move |folder, now| {
            fleet::servers(folder).put(&server, now.plus(ttl), &about)?;
            fleet::requests(folder).living(now)
        })
    }

    fn leave<'a>(&'a self, server: &'a str) -> StoreFuture<'a, ()> {
        let server = server.to_owned();
        self.look("leave", move |folder, _| fleet::servers(folder).remove(&server))
    }

    fn servers(&self) -> StoreFuture<'_, Vec<ServerInfo>> {
        self.look("servers", |folder, now| fleet::servers(folder).living(now))
    }

    fn diagnose<'a>(&'a self, jobs: &'a [String]) -> FindingsFuture<'a> {
        let jobs = jobs.to_vec();
        let found = self.look("diagnose", move |folder, _| Ok(diagnosis::look(folder, &jobs)));
        Box::pin(async { Ok(found.await?.reply) })
    }
}
