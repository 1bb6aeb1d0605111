//! A job: a policy and a function. Annotated functions become one, and so do closures.

use std::fmt;
use std::panic::Location;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use singleton_jobs_policy::{Missed, OnCrash, OnLost, Overlap, Policy, Schedule, ScheduleError};

use crate::server::Server;
use crate::tick::takeover::TakeoverWaiter;
use crate::util::watched::WatchedNumber;
use crate::{Run, Timestamp};
use outcome::IntoOutcome;
use parameters::{Need, States};
use registry::JobFuture;
use run::RunContext;

pub(crate) mod current;
pub mod generated;
pub(crate) mod outcome;
pub(crate) mod parameters;
pub(crate) mod registry;
pub(crate) mod run;

pub(crate) type JobFunction = Arc<dyn Fn(&Run, &States) -> JobFuture + Send + Sync>;

/// A job that was built at run time, for schedules that come from configuration.
///
/// It obeys the same rules as one made by `#[singleton_job]`; they are checked when it is started.
///
/// ```
/// use std::time::Duration;
/// use jobs::Job;
///
/// # fn from_config() -> &'static str { "*/5 * * * *" }
/// let job = Job::new("refresh-prices")
///     .every(from_config())?
///     .ttl(Duration::from_secs(30))
///     .run(|run| async move {
///         println!("{} runs for {:?}", run.key(), run.tick());
///     });
/// # let _ = job;
/// # Ok::<(), jobs::schedule::ScheduleError>(())
/// ```
pub struct Job {
    pub(crate) policy: Policy,
    pub(crate) description: String,
    pub(crate) place: String,
    pub(crate) needs: Vec<Need>,
    pub(crate) call: JobFunction,
    pub(crate) activity: JobActivity,
}

/// What this server knows of a job's ticks and runs here.
#[derive(Default)]
pub(crate) struct JobActivity {
    /// Where its runs are.
    run_context: OnceLock<Arc<RunContext>>,
    /// The newest tick that was fired, in microseconds.
    pub(crate) newest: WatchedNumber,
    /// How many runs were released.
    pub(crate) released: WatchedNumber,
    /// How many runs go on although their lease is lost: because they block, or were told to. The store would let this
    /// server in beside them.
    unleased: AtomicUsize,
    /// The task that waits to take over a tick.
    pub(crate) takeover: TakeoverWaiter,
    /// The last tick that was said to be overdue, in microseconds.
    pub(crate) overdue: AtomicI64,
    /// The last schedule of another server that was told of.
    pub(crate) other_schedule: Mutex<String>,
}

impl JobActivity {
    pub(crate) fn has_unleased_run(&self) -> bool {
        self.unleased.load(Ordering::SeqCst) > 0
    }
}

/// While a run without a lease may still go on, its job is not claimed here.
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
    /// Begins a job; [`JobBuilder::run`] completes it.
    #[track_caller]
    #[allow(clippy::new_ret_no_self, reason = "a job is whole only once it has something to run")]
    pub fn new(key: impl Into<String>) -> JobBuilder {
        JobBuilder {
            policy: Policy::new(key),
            description: String::new(),
            place: Location::caller().to_string(),
        }
    }

    /// What names the job, and its lock, on every server.
    pub fn key(&self) -> &str {
        &self.policy.key
    }

    /// Where its runs are. A job is on one server only.
    pub(crate) fn run_context(&self, server: &Arc<Server>) -> &Arc<RunContext> {
        let run_context = self.activity.run_context.get_or_init(|| RunContext::new(&self.policy.key, server));
        debug_assert!(run_context.is_on(server));
        run_context
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

/// A job without its function yet. The methods are the attribute's arguments: [`every_in`](JobBuilder::every_in) is `every`
/// with `tz`, [`retries`](JobBuilder::retries) takes `retry_delay` too, and
/// [`retry_on_crash`](JobBuilder::retry_on_crash) is `on_crash = "retry"` with `takeovers`.
#[derive(Clone, Debug)]
#[must_use = "a job is complete with `run`"]
pub struct JobBuilder {
    policy: Policy,
    description: String,
    place: String,
}

impl JobBuilder {
    /// When the job is due, in UTC: cron, a nickname, or an interval.
    pub fn every(mut self, schedule: &str) -> Result<Self, ScheduleError> {
        self.policy.schedule = Some(Schedule::parse(schedule, None)?);
        Ok(self)
    }

    /// When the job is due, by the wall clock of an IANA time zone.
    pub fn every_in(mut self, schedule: &str, tz: &str) -> Result<Self, ScheduleError> {
        self.policy.schedule = Some(Schedule::parse(schedule, Some(tz))?);
        Ok(self)
    }

    /// How long a lease lasts without an extension: how long a crash blocks the job. 60 s by default.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.policy.ttl = ttl;
        self
    }

    /// Cancels a run that takes longer, with all its tries.
    ///
    /// The function is dropped at its next `await`. One that blocks until it returns is recorded as timed out, too,
    /// whatever it returned: run blocking code with `tokio::task::spawn_blocking`.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.policy.timeout = Some(timeout);
        self
    }

    /// Tries a failed run again under the same lease, so many times, after a pause that grows from `delay`.
    pub fn retries(mut self, retries: u32, delay: Duration) -> Self {
        self.policy.retries = retries;
        self.policy.retry_delay = delay;
        self
    }

    /// What happens to a tick that is due while the last run still goes on.
    pub fn overlap(mut self, overlap: Overlap) -> Self {
        self.policy.overlap = overlap;
        self
    }

    /// What happens to ticks that passed while no server or no store was there.
    pub fn missed(mut self, missed: Missed) -> Self {
        self.policy.missed = missed;
        self
    }

    /// Lets another server take over a tick whose run did not finish, so many times.
    pub fn retry_on_crash(mut self, takeovers: u32) -> Self {
        self.policy.on_crash = OnCrash::Retry;
        self.policy.takeovers = takeovers;
        self
    }

    /// How late a tick may still start.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.policy.grace = Some(grace);
        self
    }

    /// Delays each start by an amount below this, the same on all servers.
    pub fn jitter(mut self, jitter: Duration) -> Self {
        self.policy.jitter = Some(jitter);
        self
    }

    /// Whether the lease is extended while the run goes on. It is, by default.
    pub fn keep_alive(mut self, keep_alive: bool) -> Self {
        self.policy.keep_alive = keep_alive;
        self
    }

    /// What happens to a run whose lease is lost.
    pub fn on_lost(mut self, on_lost: OnLost) -> Self {
        self.policy.on_lost = on_lost;
        self
    }

    /// What the job does, for people.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = description.into();
        self
    }

    /// Completes the job with what it does.
    pub fn run<F, Fut>(self, function: F) -> Job
    where
        F: Fn(Run) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: IntoOutcome> + Send + 'static,
    {
        let call = move |run: &Run, _: &States| -> JobFuture {
            let future = function(run.clone());
            Box::pin(async move { future.await.into_outcome() })
        };
        Job {
            policy: self.policy,
            description: self.description,
            place: self.place,
            needs: Vec::new(),
            call: Arc::new(call),
            activity: JobActivity::default(),
        }
    }
}
