//! The run that a job's function is in.

use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::Timestamp;
use crate::history::Progress;
use crate::lease::HeldLease;
use crate::lease::transaction::RunLease;
use crate::locks::WeakServer;
use crate::observe::event::RunRef;
use crate::server::Server;
use crate::util::lock;
use crate::util::watched::Flag;

/// The run that a job's function is in: its tick, its lease, and whether it is cancelled.
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
    state: Arc<RunState>,
    retry: u32,
    done_for: Option<Duration>,
}

struct RunState {
    context: Arc<RunContext>,
    id: RunRef,
    /// `None` for a detached run.
    lease: Option<RunLease>,
    cancelled: CancellationToken,
    progress: Mutex<Option<Progress>>,
}

/// What all runs of a job on a server share: one reference to count, when thousands of jobs start together.
pub(crate) struct RunContext {
    key: Arc<str>,
    server: Arc<str>,
    weak_server: WeakServer,
    stopping: Arc<Flag>,
}

impl RunContext {
    pub(crate) fn new(key: &str, server: &Arc<Server>) -> Arc<Self> {
        Arc::new(Self {
            key: key.into(),
            server: server.id.clone(),
            weak_server: WeakServer::of(server),
            stopping: server.shutting_down.clone(),
        })
    }

    pub(crate) fn key(&self) -> Arc<str> {
        self.key.clone()
    }

    pub(crate) fn is_on(&self, server: &Server) -> bool {
        self.server == server.id
    }
}

/// How many characters of a status are kept.
const LONGEST_STATUS: usize = 200;

impl Run {
    pub(crate) fn new(context: Arc<RunContext>, lease: &HeldLease) -> Self {
        Self::of(context, lease.run_ref(), Some(lease.run_lease()))
    }

    fn of(context: Arc<RunContext>, id: RunRef, lease: Option<RunLease>) -> Self {
        let (cancelled, progress) = (CancellationToken::new(), Mutex::default());
        let state = RunState { context, id, lease, cancelled, progress };
        Self { state: Arc::new(state), retry: 0, done_for: None }
    }

    /// A run outside any scheduler, for calling a job's function in a unit test. Its fence is 1, and it has no tick, like a manual
    /// run: see [`detached_at`](Self::detached_at).
    pub fn detached(key: impl Into<String>) -> Self {
        Self::detached_run(key.into(), None)
    }

    /// A run of this tick outside any scheduler, for calling a job's function in a unit test. Its fence is 1.
    pub fn detached_at(key: impl Into<String>, tick: Timestamp) -> Self {
        Self::detached_run(key.into(), Some(tick))
    }

    fn detached_run(key: String, tick: Option<Timestamp>) -> Self {
        let context = RunContext {
            key: key.into(),
            server: "detached".into(),
            weak_server: WeakServer::default(),
            stopping: Arc::default(),
        };
        Self::of(Arc::new(context), RunRef { tick, fence: 1, attempt: 1 }, None)
    }

    /// The run that this code is in, at any depth of calls; `None` outside of jobs, and in tasks and threads
    /// that a job has spawned: pass them a clone.
    pub fn current() -> Option<Self> {
        super::current::get()
    }

    /// The job's key.
    pub fn key(&self) -> &str {
        &self.state.context.key
    }

    /// The scheduled instant of this run: the same on every server, however late the run starts. `None` for a
    /// manual run.
    pub fn tick(&self) -> Option<Timestamp> {
        self.state.id.tick
    }

    /// A number greater than that of every earlier run of this job.
    ///
    /// Send it along with writes, and let the system that is written to refuse a lower number than it has
    /// seen: then a run that was paused and overtaken cannot damage its successor's work. It is positive and
    /// below 2⁵³: exact in SQL, in JSON and in Lua.
    pub fn fence(&self) -> i64 {
        self.state.id.fence
    }

    /// 1 for a tick's first run, 2 for the first takeover by another server, and so on.
    pub fn attempt(&self) -> u32 {
        self.state.id.attempt
    }

    /// 0 for the first try, 1 for the first retry under the same lease, and so on.
    pub fn retry(&self) -> u32 {
        self.retry
    }

    /// The id of the server this run is on.
    pub fn server(&self) -> &str {
        &self.state.context.server
    }

    /// Whether this run is cancelled: its lease is lost, its timeout is over, an operator has cancelled it,
    /// or the shutdown's grace is over.
    ///
    /// The function is dropped at its next `await` then. Check this in work that runs in other tasks or
    /// threads.
    pub fn is_cancelled(&self) -> bool {
        self.state.cancelled.is_cancelled()
    }

    /// Waits until this run is [cancelled](Run::is_cancelled).
    pub async fn cancelled(&self) {
        self.state.cancelled.cancelled().await;
    }

    /// A token that is cancelled when this run is [cancelled](Run::is_cancelled), for code that takes a token
    /// of `tokio-util`. Cancelling the token does not cancel the run.
    ///
    /// ```
    /// # use jobs::{CancellationToken, Run};
    /// async fn copy_rows(stop: CancellationToken) { /* … */ }
    ///
    /// async fn import(run: Run) -> Result<(), tokio::task::JoinError> {
    ///     tokio::spawn(copy_rows(run.cancellation_token())).await
    /// }
    /// ```
    pub fn cancellation_token(&self) -> CancellationToken {
        self.state.cancelled.child_token()
    }

    /// Whether the server has begun to shut down. A job that works through a list checks this between two
    /// items.
    pub fn is_stopping(&self) -> bool {
        self.state.context.stopping.is_raised()
    }

    /// Waits until the server begins to shut down. The run may continue for the shutdown's grace: time to
    /// reach a point at which it can stop.
    pub async fn stopping(&self) {
        self.state.context.stopping.raised().await;
    }

    /// Sets the progress of this run, for [`Jobs::history`](crate::Jobs::history) on every server. A `total`
    /// of 0 means that it is not known.
    ///
    /// It costs no round trip: the next keep-alive carries it, at most a third of the ttl later, and the
    /// run's record contains it.
    pub fn set_progress(&self, done: u64, total: u64) {
        let mut progress = lock(&self.state.progress);
        let progress = progress.get_or_insert_default();
        (progress.done, progress.total) = (done, total);
    }

    /// Sets the status text of this run: what it is doing. The store receives it like the
    /// [progress](Run::set_progress). 200 characters are kept.
    pub fn set_status(&self, status: impl Into<String>) {
        let mut status = status.into();
        if let Some((end, _)) = status.char_indices().nth(LONGEST_STATUS) {
            status.truncate(end);
        }
        lock(&self.state.progress).get_or_insert_default().status = status;
    }

    /// The progress and status that were set last.
    pub(crate) fn progress(&self) -> Option<Progress> {
        lock(&self.state.progress).clone()
    }

    /// The same run, for another try of its function.
    pub(crate) fn next_try(&self) -> Self {
        Self { retry: self.retry + 1, ..self.clone() }
    }

    /// The same run, for work that counts as done for this long once it is [finished](Run::finish).
    pub(crate) fn done_for_once(self, done_for: Duration) -> Self {
        Self { done_for: Some(done_for), ..self }
    }

    pub(crate) fn done_for(&self) -> Option<Duration> {
        self.done_for
    }

    /// Whether [`finish`](Run::finish) was called. Its transaction may not have been committed.
    pub(crate) fn finish_called(&self) -> bool {
        self.lease().is_some_and(|lease| lease.finish_called.load(Ordering::SeqCst))
    }

    pub(crate) fn lease(&self) -> Option<&RunLease> {
        self.state.lease.as_ref()
    }

    pub(crate) fn weak_server(&self) -> &WeakServer {
        &self.state.context.weak_server
    }

    pub(crate) fn id(&self) -> RunRef {
        self.state.id
    }

    pub(crate) fn cancel(&self) {
        self.state.cancelled.cancel();
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
