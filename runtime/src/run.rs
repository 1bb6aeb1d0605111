//! What a job's function can learn about the run it is in.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::Timestamp;

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
#[derive(Clone, Debug)]
pub struct Run {
    inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) key: String,
    pub(crate) tick: Option<Timestamp>,
    pub(crate) fence: i64,
    pub(crate) attempt: u32,
    pub(crate) server: String,
    pub(crate) cancelled: CancellationToken,
    pub(crate) stopping: CancellationToken,
}

impl Run {
    pub(crate) fn new(inner: Inner) -> Self {
        Self { inner: Arc::new(inner) }
    }

    /// A run outside any scheduler, for calling a job's function in a unit test. Its fence is 1.
    pub fn detached(key: impl Into<String>) -> Self {
        Self::new(Inner {
            key: key.into(),
            tick: None,
            fence: 1,
            attempt: 1,
            server: "detached".to_owned(),
            cancelled: CancellationToken::new(),
            stopping: CancellationToken::new(),
        })
    }

    /// The job's key.
    pub fn key(&self) -> &str {
        &self.inner.key
    }

    /// The scheduled instant this run is for: the same on whichever server it runs, however late it starts.
    /// `None` for a run by hand.
    pub fn tick(&self) -> Option<Timestamp> {
        self.inner.tick
    }

    /// A number greater than that of every earlier run of this job. Send it along with writes, and let
    /// the place that is written to refuse a lower one than it has seen: then a run that was paused and
    /// overtaken cannot spoil its successor's work. It is positive and below 2⁵³: exact in SQL, in JSON
    /// and in Lua.
    pub fn fence(&self) -> i64 {
        self.inner.fence
    }

    /// 1 for a tick's first run, 2 when another server took it over, and so on.
    pub fn attempt(&self) -> u32 {
        self.inner.attempt
    }

    /// The server this run is on.
    pub fn server(&self) -> &str {
        &self.inner.server
    }

    /// Whether this run has been told to stop: its lease is lost, its time is over, or the server is
    /// shutting down and waits no longer. The function is dropped at its next `await` then; this is for
    /// work it has handed to other tasks or threads.
    pub fn is_cancelled(&self) -> bool {
        self.inner.cancelled.is_cancelled()
    }

    /// Waits until this run is told to stop.
    pub async fn cancelled(&self) {
        self.inner.cancelled.cancelled().await;
    }

    /// Whether the server has begun to shut down. A job that works through a list asks between two items.
    pub fn is_stopping(&self) -> bool {
        self.inner.stopping.is_cancelled()
    }

    /// Waits until the server begins to shut down. The run may go on for the shutdown's grace: time to
    /// reach a good place to stop.
    pub async fn stopping(&self) {
        self.inner.stopping.cancelled().await;
    }

    pub(crate) fn cancel(&self) {
        self.inner.cancelled.cancel();
    }
}
