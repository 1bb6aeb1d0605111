//! A job: a policy and a function. An annotated function is one, and so is a closure given to the builder.

use std::fmt;
use std::panic::Location;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use singleton_jobs_policy::Policy;

#[cfg(feature = "metrics")]
use crate::observe::metrics::JobMetrics;
use crate::server::Server;
use crate::tick::takeover::TakeoverWaiter;
use crate::util::watched::WatchedNumber;
use crate::{Run, Timestamp};
pub use builder::JobBuilder;
use hooks::JobHooks;
use parameters::{Need, States};
use registry::JobFuture;
use run::RunContext;

pub(crate) mod builder;
pub(crate) mod current;
pub mod generated;
pub(crate) mod hooks;
pub(crate) mod manifest;
pub(crate) mod outcome;
pub(crate) mod parameters;
pub(crate) mod registry;
pub(crate) mod run;

/// The function of a job, with its parameters taken from the run.
pub(crate) type JobFunction = Arc<dyn Fn(&Run, &States) -> JobFuture + Send + Sync>;

/// A job built at run time, for schedules that come from configuration.
///
/// It obeys the same rules as one made by `#[singleton_job]`. [`build`](JobBuilder::build) checks them.
///
/// ```
/// use jobs::Job;
///
/// # fn from_config() -> &'static str { "*/5 * * * *" }
/// let job = Job::builder("refresh-prices")
///     .every(from_config())
///     .ttl("30s")
///     .run(|run| async move {
///         println!("{} runs for {:?}", run.key(), run.tick());
///     })
///     .build()?;
/// # let _ = job;
/// # Ok::<(), jobs::JobProblem>(())
/// ```
pub struct Job {
    pub(crate) policy: Policy,
    pub(crate) description: String,
    pub(crate) place: String,
    pub(crate) needs: Vec<Need>,
    pub(crate) call: JobFunction,
    pub(crate) hooks: JobHooks,
    pub(crate) activity: JobActivity,
}

/// The state of a job's ticks and runs on this server.
#[derive(Default)]
pub(crate) struct JobActivity {
    run_context: OnceLock<Arc<RunContext>>,
    /// The newest tick that was fired, in microseconds.
    pub(crate) newest: WatchedNumber,
    /// How many runs were released.
    pub(crate) released: WatchedNumber,
    /// How many runs are still in progress although their lease is lost: they block, or have `on_lost =
    /// "continue"`. The store would let this server start another run beside them.
    unleased: AtomicUsize,
    /// The task that waits to take over a tick.
    pub(crate) takeover: TakeoverWaiter,
    /// The last tick that was reported as overdue, in microseconds.
    pub(crate) overdue: AtomicI64,
    /// The last schedule of another server that was reported.
    pub(crate) other_schedule: Mutex<String>,
    #[cfg(feature = "metrics")]
    metrics: OnceLock<JobMetrics>,
}

impl JobActivity {
    pub(crate) fn has_unleased_run(&self) -> bool {
        self.unleased.load(Ordering::SeqCst) > 0
    }
}

/// A run that has lost its lease and may still be in progress. While one exists, this server does not claim
/// the job.
pub(crate) struct UnleasedRun<'a>(&'a Job);

impl<'a> UnleasedRun<'a> {
    pub(crate) fn new(job: &'a Job) -> Self {
        job.activity.unleased.fetch_add(1, Ordering::SeqCst);
        Self(job)
    }
}

impl Drop for UnleasedRun<'_> {
    fn drop(&mut self) {
        self.0.activity.unleased.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Job {
    /// Starts to build a job with this key.
    #[track_caller]
    pub fn builder(key: impl Into<String>) -> JobBuilder {
        JobBuilder::new(key.into(), Location::caller())
    }

    /// The name of the job, and of its lock, on every server.
    pub fn key(&self) -> &str {
        &self.policy.key
    }

    /// What all runs of the job on this server share. A job is on one server only.
    pub(crate) fn run_context(&self, server: &Arc<Server>) -> &Arc<RunContext> {
        let run_context = self.activity.run_context.get_or_init(|| RunContext::new(&self.policy.key, server));
        debug_assert!(run_context.is_on(server));
        run_context
    }

    /// The job's metrics on this server.
    #[cfg(feature = "metrics")]
    pub(crate) fn metrics(&self) -> &JobMetrics {
        self.activity.metrics.get_or_init(|| JobMetrics::new(&self.policy.key))
    }

    /// Resolves when a newer tick was fired on this server: a claim of an older one need not wait any longer.
    pub(crate) async fn superseded(&self, tick: Timestamp) {
        self.activity.newest.exceeds(tick.as_micros()).await;
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job")
            .field("policy", &self.policy)
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}
