//! Everything that can be said before the jobs are started.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use singleton_jobs_policy::check_name;

use super::config::{StoreChoice, variable};
use super::error::StartError;
use super::handle::{Closed, Jobs};
use super::roster::{Checked, Roster};
use super::thread;
use super::thread::Plan;
use crate::job::Job;
use crate::job::parameters::States;
use crate::observe::event::Event;
use crate::observe::hook::EventHook;
use crate::store::{REMEMBERED, Store};
use crate::util::clock::{Clock, SystemClock};

/// Orchestrators kill a process 30 s after asking it to stop: time to finish, and to release.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(25);

/// Says how the jobs are started; [`start_all`](Builder::start_all) starts them.
///
/// ```
/// # #[derive(Clone)] struct Db;
/// # async fn start(db: Db) -> Result<(), jobs::StartError> {
/// let jobs = jobs::builder().state(db).max_concurrent(4).start_all().await?;
/// # jobs.shutdown().await;
/// # Ok(()) }
/// ```
#[must_use = "nothing is started before `start_all`"]
pub struct Builder {
    store: StoreChoice,
    states: States,
    jobs: Vec<Job>,
    schedules: BTreeMap<String, String>,
    disabled: Vec<String>,
    server_name: Option<String>,
    max_concurrent: Option<usize>,
    shutdown_grace: Duration,
    start_degraded: bool,
    annotated: bool,
    operates_only: bool,
    clock: Arc<dyn Clock>,
    remember: usize,
    hooks: Vec<EventHook>,
}

/// Begins to say how the jobs are started. [`start_all`](crate::start_all) is the shortest form.
pub fn builder() -> Builder {
    Builder {
        store: StoreChoice::default(),
        states: States::default(),
        jobs: Vec::new(),
        schedules: BTreeMap::new(),
        disabled: Vec::new(),
        server_name: None,
        max_concurrent: None,
        shutdown_grace: SHUTDOWN_GRACE,
        start_degraded: false,
        annotated: true,
        operates_only: false,
        clock: Arc::new(SystemClock),
        remember: REMEMBERED,
        hooks: Vec::new(),
    }
}

impl Builder {
    /// A value that jobs take as [`State<T>`](crate::State): a connection pool, a client, settings. One per
    /// type; it is cloned for each run.
    pub fn state<T: Clone + Send + Sync + 'static>(mut self, value: T) -> Self {
        self.states.insert(value);
        self
    }

    /// The store's address, before `JOBS_URL` and `REDIS_URL`.
    pub fn url(mut self, url: impl Into<String>) -> Self {
        self.store.url = Some(url.into());
        self
    }

    /// A store that is already open, or one of your own.
    pub fn store(mut self, store: impl Store) -> Self {
        self.store.store = Some(Arc::new(store));
        self
    }

    /// Uses files on this machine when no store is configured, also in a release build. For a service whose
    /// processes all run on one machine.
    pub fn or_embedded(mut self) -> Self {
        self.store.or_embedded = true;
        self
    }

    /// Separates the keys of services, or of staging and production, that share a store. Before
    /// `JOBS_NAMESPACE`.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.store.namespace = Some(namespace.into());
        self
    }

    /// Starts even if the store cannot be reached within 10 s, and keeps trying. Until it answers no job runs. Also if it
    /// answers and jobs [could not run](crate::diagnosis::Severity::Error) on it: then the log says why.
    pub fn start_degraded(mut self) -> Self {
        self.start_degraded = true;
        self
    }

    /// Adds a job that was built at run time.
    pub fn job(mut self, job: Job) -> Self {
        self.jobs.push(job);
        self
    }

    /// Adds jobs that were built at run time.
    pub fn jobs(mut self, jobs: impl IntoIterator<Item = Job>) -> Self {
        self.jobs.extend(jobs);
        self
    }

    /// Leaves out the annotated functions: only jobs added with [`job`](Builder::job) are started.
    pub fn without_annotated(mut self) -> Self {
        self.annotated = false;
        self
    }

    /// Schedules nothing here: for a program that only uses [locks](crate::locks::Lock), and for a tool that looks at, pauses
    /// and runs the jobs of other servers.
    ///
    /// ```
    /// # async fn operate() -> Result<(), Box<dyn std::error::Error>> {
    /// let jobs = jobs::builder().without_jobs().start_all().await?;
    /// println!("{:?}", jobs.run_now("import-products").await?);
    /// jobs.shutdown().await;
    /// # Ok(()) }
    /// ```
    pub fn without_jobs(mut self) -> Self {
        self.operates_only = true;
        self
    }

    /// Gives an annotated job another schedule; `JOBS_SCHEDULES="key=0 4 * * *; other=10m"` does the same from
    /// outside, and wins. A time zone in the annotation stays.
    pub fn schedule(mut self, key: impl Into<String>, every: impl Into<String>) -> Self {
        self.schedules.insert(key.into(), every.into());
        self
    }

    /// Does not schedule this job on this server; `JOBS_DISABLE="key,other"` or `JOBS_DISABLE="*"` does the same
    /// from outside.
    pub fn disable(mut self, key: impl Into<String>) -> Self {
        self.disabled.push(key.into());
        self
    }

    /// The first part of this server's id, instead of the host's name.
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = Some(name.into());
        self
    }

    /// How many jobs may run on this server at the same time. A tick that is due while all places are taken is
    /// left to other servers. No limit by default.
    pub fn max_concurrent(mut self, runs: usize) -> Self {
        self.max_concurrent = Some(runs);
        self
    }

    /// How long a shutdown waits for runs before it cancels them. 25 s by default, because orchestrators kill
    /// after 30.
    pub fn shutdown_grace(mut self, grace: Duration) -> Self {
        self.shutdown_grace = grace;
        self
    }

    /// How many runs, and how many skips, the store keeps per job. 100 by default.
    pub fn remember(mut self, runs: usize) -> Self {
        self.remember = runs;
        self
    }

    /// Calls a function for every event on this server: to count, to alert. It is called on the application's runtime,
    /// beside the jobs, and should be quick; [`Jobs::events`] is for what waits.
    pub fn on_event(mut self, hook: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        self.hooks.push(EventHook(Box::new(hook)));
        self
    }

    /// The machine's clock, for tests. Ticks follow the store's clock in any case.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Checks every job, reaches the store, and starts scheduling.
    ///
    /// May be called more than once in a process, as tests with many servers do: each call is a server of its
    /// own, and they share the work like servers on different machines.
    pub async fn start_all(self) -> Result<Jobs, StartError> {
        let app = tokio::runtime::Handle::try_current().map_err(|_| StartError::NoRuntime)?;
        let config =
            |source: &str, message: String| StartError::Config { source: source.to_owned(), message };
        if let Some(Err(why)) = self.server_name.as_deref().map(|name| check_name(name, "worker-1")) {
            return Err(config("the builder's `server_name`", why));
        }
        if self.max_concurrent == Some(0) {
            return Err(config(
                "the builder's `max_concurrent`",
                "at least 1, or nothing could run".to_owned(),
            ));
        }
        let roster = Roster {
            annotated: self.annotated,
            built: self.jobs,
            schedules: self.schedules,
            disabled: self.disabled,
            schedules_from_outside: variable("JOBS_SCHEDULES").map(|(value, _)| value),
            disabled_from_outside: variable("JOBS_DISABLE").map(|(value, _)| value),
        };
        let jobs = if self.operates_only { Checked::default() } else { roster.check(&self.states)? };
        if self.operates_only && !self.store.is_named() {
            let message = "name the store that the servers use, since there is no default for a program without jobs: set \
                           JOBS_URL, as in JOBS_URL=redis://localhost:6379 or JOBS_URL=file:///var/lib/shop/jobs, or call \
                           `url`";
            return Err(config("the builder's `without_jobs`", message.to_owned()));
        }
        let chosen = self.store.choose()?;
        thread::start(Plan {
            jobs,
            chosen,
            app,
            states: self.states,
            server_name: self.server_name,
            max_concurrent: self.max_concurrent,
            shutdown_grace: self.shutdown_grace,
            start_degraded: self.start_degraded,
            clock: self.clock,
            remember: self.remember,
            hooks: self.hooks,
        })
        .await
    }

    /// For a worker that does nothing else: starts, waits for SIGTERM or ctrl-c, shuts down.
    pub async fn run_until_signal(self) -> Result<(), StartError> {
        let jobs = self.start_all().await?;
        let closed = tokio::select! {
            () = super::signal::wanted_to_stop() => Closed::ShutDown,
            closed = jobs.closed() => closed,
        };
        jobs.shutdown().await;
        if closed == Closed::Failed { Err(StartError::Ended) } else { Ok(()) }
    }
}
