//! What a job's function can learn about the run it is in.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::Timestamp;
use crate::history::Progress;
use crate::locks::WeakServer;
use crate::observe::event::RunRef;
use crate::server::Server;
use crate::util::watched::Flag;

/// The run that a job's function is in: which tick, under which lease, and whether to stop.
///
/// Take it as a parameter, in any position. It is cheap to clone and can be sent to other tasks.
///
/// ```
/// # use jobs::{singleton_job, Run};
/// #[singleton_job(key = "close-books", ttl = "30s", every = "0 3 * * *")]
/// async fn close_books(run: Run) {
///     println!("closing the books of {:?}, fence {}", run.tick(), run.fence());
/// }
/// ```
#[derive(Clone)]
pub struct Run {
    inner: Arc<Inner>,
    retry: u32,
}

struct Inner {
    home: Arc<Home>,
    id: RunRef,
    cancelled: Flag,
    progress: Mutex<Option<Progress>>,
}

/// Where a run is. All runs of a job on a server share one, so that thousands of jobs that start together do not count
/// references to the same things.
pub(crate) struct Home {
    key: Arc<str>,
    server: Arc<str>,
    weak_server: WeakServer,
    stopping: Arc<Flag>,
}

impl Home {
    pub(crate) fn new(key: &str, server: &Arc<Server>) -> Arc<Self> {
        Arc::new(Self {
            key: key.into(),
            server: server.id.clone(),
            weak_server: WeakServer::of(server),
            stopping: server.stop.clone(),
        })
    }

    pub(crate) fn key(&self) -> Arc<str> {
        self.key.clone()
    }

    pub(crate) fn is_on(&self, server: &Server) -> bool {
        self.server == server.id
    }
}

/// How much of a status is kept.
const LONGEST_STATUS: usize = 200;

impl Run {
    pub(crate) fn new(home: Arc<Home>, id: RunRef) -> Self {
        let inner = Inner { home, id, cancelled: Flag::default(), progress: Mutex::default() };
        Self { inner: Arc::new(inner), retry: 0 }
    }

    /// A run outside any scheduler, for calling a job's function in a unit test. Its fence is 1.
    pub fn detached(key: impl Into<String>) -> Self {
        let home = Home {
            key: key.into().into(),
            server: "detached".into(),
            weak_server: WeakServer::default(),
            stopping: Arc::default(),
        };
        Self::new(Arc::new(home), RunRef { tick: None, fence: 1, attempt: 1 })
    }

    /// The run that this code is in, however deep; `None` outside of jobs, and in tasks and threads that a job
    /// spawned: pass them a clone.
    pub fn current() -> Option<Self> {
        super::current::get()
    }

    /// The job's key.
    pub fn key(&self) -> &str {
        &self.inner.home.key
    }

    /// The scheduled instant this run is for: the same on whichever server it runs, however late it starts.
    /// `None` for a run by hand.
    pub fn tick(&self) -> Option<Timestamp> {
        self.inner.id.tick
    }

    /// A number greater than that of every earlier run of this job. Send it along with writes, and let
    /// the place that is written to refuse a lower one than it has seen: then a run that was paused and
    /// overtaken cannot spoil its successor's work. It is positive and below 2⁵³: exact in SQL, in JSON
    /// and in Lua.
    pub fn fence(&self) -> i64 {
        self.inner.id.fence
    }

    /// 1 for a tick's first run, 2 when another server took it over, and so on.
    pub fn attempt(&self) -> u32 {
        self.inner.id.attempt
    }

    /// 0 for the first try, 1 for the first retry under the same lease, and so on.
    pub fn retry(&self) -> u32 {
        self.retry
    }

    /// The server this run is on.
    pub fn server(&self) -> &str {
        &self.inner.home.server
    }

    /// Whether this run has been told to stop: its lease is lost, its time is over, or the server is
    /// shutting down and waits no longer. The function is dropped at its next `await` then; this is for
    /// work it has handed to other tasks or threads.
    pub fn is_cancelled(&self) -> bool {
        self.inner.cancelled.is_raised()
    }

    /// Waits until this run is told to stop.
    pub async fn cancelled(&self) {
        self.inner.cancelled.raised().await;
    }

    /// Whether the server has begun to shut down. A job that works through a list asks between two items.
    pub fn is_stopping(&self) -> bool {
        self.inner.home.stopping.is_raised()
    }

    /// Waits until the server begins to shut down. The run may go on for the shutdown's grace: time to
    /// reach a good place to stop.
    pub async fn stopping(&self) {
        self.inner.home.stopping.raised().await;
    }

    /// Says how far this run is, for [`Jobs::history`](crate::Jobs::history) on every server. A `total` of 0
    /// means that it is not known.
    ///
    /// It costs no trip to the store: it travels with the next keep-alive, a third of the ttl later at most,
    /// and is part of the run's record.
    pub fn progress(&self, done: u64, total: u64) {
        let mut progress = self.inner.progress.lock().unwrap_or_else(PoisonError::into_inner);
        let progress = progress.get_or_insert_default();
        (progress.done, progress.total) = (done, total);
    }

    /// Says in words what this run is doing; it travels like [`progress`](Run::progress). 200 characters are kept.
    pub fn status(&self, status: impl Into<String>) {
        let mut status = status.into();
        if let Some((end, _)) = status.char_indices().nth(LONGEST_STATUS) {
            status.truncate(end);
        }
        let mut progress = self.inner.progress.lock().unwrap_or_else(PoisonError::into_inner);
        progress.get_or_insert_default().status = status;
    }

    pub(crate) fn said(&self) -> Option<Progress> {
        self.inner.progress.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The same run, for another try of its function.
    pub(crate) fn next_try(&self) -> Self {
        Self { inner: self.inner.clone(), retry: self.retry + 1 }
    }

    pub(crate) fn weak_server(&self) -> &WeakServer {
        &self.inner.home.weak_server
    }

    pub(crate) fn id(&self) -> RunRef {
        self.inner.id
    }

    pub(crate) fn cancel(&self) {
        self.inner.cancelled.raise();
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run")
            .field("key", &self.key())
            .field("tick", &self.tick())
            .field("fence", &self.fence())
            .field("attempt", &self.attempt())
            .field("retry", &self.retry)
            .field("server", &self.server())
            .finish_non_exhaustive()
    }
}
