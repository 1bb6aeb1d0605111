//! Jobs that write down what happens to them, and listeners that write down what they hear.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use jobs::events::{Event, EventKind, SkipReason};
use jobs::history::RunOutcome;
use jobs::testing::{Fleet, TestServer};
use jobs::{IntoOutcome, Job, JobBuilder, Run, Timestamp};
use tokio::time::Instant;
use tracing::{Dispatch, Subscriber};

pub const HOUR: u64 = 3600;

/// When the tests' fleets begin, unless they say otherwise.
pub const NOON: Timestamp = Timestamp::from_micros(1_800_014_400_000_000);

pub fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// A pause that no test lives to see the end of, whatever fraction of it is drawn.
pub const AGES: Duration = Duration::from_secs(100 * 366 * 24 * 3600);

pub fn job(every: &str, ttl_secs: u64) -> JobBuilder {
    Job::builder("job").every(every).ttl(secs(ttl_secs))
}

/// The start of a function of a job.
#[derive(Clone, Debug)]
pub struct Start {
    /// Seconds after the test began.
    pub at: u64,
    pub server: String,
    /// Seconds after noon; `None` for a run by hand.
    pub tick: Option<u64>,
    pub fence: i64,
    pub attempt: u32,
    pub retry: u32,
}

/// What jobs wrote down.
#[derive(Clone)]
pub struct Notes {
    begun: Instant,
    starts: Arc<Mutex<Vec<Start>>>,
    going_on: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

impl Notes {
    pub fn new() -> Self {
        let (starts, going_on, most) = (Arc::default(), Arc::default(), Arc::default());
        Self { begun: Instant::now(), starts, going_on, most }
    }

    /// A job, for each server of a fleet, that writes down its starts.
    pub fn job<F, Fut>(&self, plan: JobBuilder, function: F) -> impl Fn() -> Job + Send + Sync + use<F, Fut>
    where
        F: Fn(Run) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output: IntoOutcome> + Send + 'static,
    {
        let notes = self.clone();
        move || {
            let (notes, function) = (notes.clone(), function.clone());
            plan.clone()
                .run(move |run| {
                    let going_on = notes.started(&run);
                    let future = function(run);
                    async move {
                        let _going_on = going_on;
                        future.await
                    }
                })
                .build()
                .unwrap()
        }
    }

    /// One whose runs succeed after so many seconds.
    pub fn lasting(&self, plan: JobBuilder, run_secs: u64) -> impl Fn() -> Job + Send + Sync + use<> {
        self.job(plan, move |_| tokio::time::sleep(secs(run_secs)))
    }

    fn started(&self, run: &Run) -> GoingOn {
        self.starts.lock().unwrap().push(Start {
            at: self.begun.elapsed().as_secs(),
            server: run.server().to_owned(),
            tick: run.tick().map(|tick| tick.since(NOON).as_secs()),
            fence: run.fence(),
            attempt: run.attempt(),
            retry: run.retry(),
        });
        let now = self.going_on.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        GoingOn(self.going_on.clone())
    }

    pub fn starts(&self) -> Vec<Start> {
        self.starts.lock().unwrap().clone()
    }

    /// When runs began, and the ticks they began for, in seconds.
    pub fn times(&self) -> Vec<(u64, u64)> {
        self.starts().iter().map(|start| (start.at, start.tick.expect("a tick"))).collect()
    }

    pub fn ticks(&self) -> Vec<u64> {
        self.times().into_iter().map(|(_, tick)| tick).collect()
    }

    pub fn attempts(&self) -> Vec<u32> {
        self.starts().iter().map(|start| start.attempt).collect()
    }

    /// How many runs went on at the same time, at most.
    pub fn most_at_once(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }

    /// How many go on now.
    pub fn going_on(&self) -> usize {
        self.going_on.load(Ordering::SeqCst)
    }
}

struct GoingOn(Arc<AtomicUsize>);

impl Drop for GoingOn {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The events of a server from now on.
#[derive(Clone)]
pub struct Heard(Arc<Mutex<Vec<Event>>>);

impl Heard {
    pub fn from(server: &TestServer) -> Self {
        let heard = Self(Arc::default());
        let (events, mut coming) = (heard.0.clone(), server.events());
        tokio::spawn(async move {
            while let Some(event) = coming.next().await {
                events.lock().unwrap().push(event);
            }
        });
        heard
    }

    pub fn all(&self) -> Vec<EventKind> {
        self.0.lock().unwrap().iter().map(|event| event.kind.clone()).collect()
    }

    pub fn count(&self, is: impl Fn(&EventKind) -> bool) -> usize {
        self.all().iter().filter(|kind| is(kind)).count()
    }

    /// Why ticks did not run there, but for the one before the job was known, which a new fleet asks for.
    pub fn skips(&self) -> Vec<SkipReason> {
        let reason = |kind| match kind {
            EventKind::Skipped { reason: SkipReason::Unregistered, .. } => None,
            EventKind::Skipped { reason, .. } => Some(reason),
            _ => None,
        };
        self.all().into_iter().filter_map(reason).collect()
    }
}

/// How the runs on record ended, oldest first.
pub async fn outcomes(fleet: &Fleet) -> Vec<RunOutcome> {
    fleet.history("job").await.runs.iter().rev().map(|run| run.outcome).collect()
}

/// The number of the server on which the job runs now.
pub async fn runner(fleet: &Fleet) -> usize {
    let running = fleet.running("job").await.expect("a run goes on").server_id().to_owned();
    fleet.servers().iter().position(|server| server.server_id() == running).expect("one of the fleet")
}

/// Makes this the subscriber of this thread, on which a fleet runs, until the guard is dropped.
pub fn subscribe(subscriber: impl Subscriber + Send + Sync) -> tracing::subscriber::DefaultGuard {
    // While there is one subscriber in the process, tracing asks that of the thread which reaches an event first, and
    // another test without one would disable the event for all threads.
    static SECOND: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(tracing_subscriber::registry()));
    LazyLock::force(&SECOND);
    tracing::subscriber::set_default(subscriber)
}
