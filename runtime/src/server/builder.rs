//! The configuration of a server, before it starts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use singleton_jobs_policy::check_name;
use tokio_util::sync::CancellationToken;

use super::checked_jobs::{CheckedJobs, JobSelection, Variables};
use super::error::StartError;
use super::handle::{Closed, Jobs};
use super::store_choice::{StoreChoice, variable};
use super::thread::{self, SchedulerRuntime, Startup};
use super::{ServerConfig, server_id};
use crate::job::Job;
use crate::job::manifest::Manifest;
use crate::job::parameters::States;
use crate::observe::event::Event;
use crate::observe::hook::EventHook;
use crate::store::{REMEMBERED, Store};
use crate::util::clock::{Clock, SystemClock};
use crate::util::duration::IntoDuration;
use crate::util::signal;
use crate::util::spawner::Spawner;

/// Orchestrators kill a process 30 s after asking it to stop: time to finish, and to release.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(25);

/// The configuration of a server; [`start_all`](Builder::start_all) checks all of it and starts the server.
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
    selection: JobSelection,
    states: States,
    without_jobs: bool,
    server_id: Option<String>,
    max_concurrent: Option<usize>,
    app_version: Option<String>,
    labels: BTreeMap<String, String>,
    history_limit: usize,
    shutdown_grace: Result<Duration, String>,
    allow_degraded_start: bool,
    clock: Arc<dyn Clock>,
    hooks: Vec<EventHook>,
    stop_token: Option<CancellationToken>,
}

/// Begins the configuration of a server. [`start_all`](crate::start_all) is the shortest form.
pub fn builder() -> Builder {
    Builder {
        store: StoreChoice::default(),
        selection: JobSelection { annotated: true, ..JobSelection::default() },
        states: States::default(),
        without_jobs: false,
        server_id: None,
        max_concurrent: None,
        app_version: None,
        labels: BTreeMap::new(),
        history_limit: REMEMBERED,
        shutdown_grace: Ok(SHUTDOWN_GRACE),
        allow_degraded_start: false,
        clock: Arc::new(SystemClock),
        hooks: Vec::new(),
        stop_token: None,
    }
}

impl Builder {
    /// Adds a value that jobs take as [`State<T>`](crate::State): a connection pool, a client, settings. One per type; it
    /// is cloned for each run.
    pub fn state<T: Clone + Send + Sync + 'static>(mut self, value: T) -> Self {
        self.states.insert(value);
        self
    }

    /// Sets the store's URL. It comes before `JOBS_URL` and `REDIS_URL`.
    pub fn url(mut self, url: impl Into<String>) -> Self {
        self.store.url = Some(url.into());
        self
    }

    /// Uses a store that is already open, or an implementation of your own.
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

    /// Separates the keys of services, or of staging and production, that share a store. It comes before
    /// `JOBS_NAMESPACE`.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.store.namespace = Some(namespace.into());
        self
    }

    /// Starts even if the store cannot be reached within 10 s, and keeps trying; no job runs until the store answers. Also
    /// starts if the store answers and [jobs cannot run on it](crate::diagnosis::Severity::Error); the log reports why.
    ///
    /// For a service that also answers requests: an outage of the store must not keep it from starting. A worker that only
    /// runs jobs does without, so that a deployment to a wrong store fails. See [`Health`](crate::Health) for its probes.
    pub fn allow_degraded_start(mut self) -> Self {
        self.allow_degraded_start = true;
        self
    }

    /// Adds a job that was built at run time.
    pub fn job(mut self, job: Job) -> Self {
        self.selection.built.push(job);
        self
    }

    /// Adds jobs that were built at run time.
    pub fn jobs(mut self, jobs: impl IntoIterator<Item = Job>) -> Self {
        self.selection.built.extend(jobs);
        self
    }

    /// Leaves out the annotated functions: only jobs added with [`job`](Builder::job) are started.
    pub fn without_annotated(mut self) -> Self {
        self.selection.annotated = false;
        self
    }

    /// Makes the start fail if this program lacks one of these jobs.
    ///
    /// An annotated job in a library crate is linked only if the program mentions that crate. If it does not, the job is
    /// missing without any other sign.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let builder = jobs::builder().expect_jobs(["import-products", "send-reports"]);
    /// # let builder = builder.url("memory://expected");
    /// let error = builder.start_all().await.err().expect("this program has no jobs");
    /// assert!(error.to_string().contains("import-products"));
    /// # }
    /// ```
    pub fn expect_jobs<K: Into<String>>(mut self, keys: impl IntoIterator<Item = K>) -> Self {
        self.selection.expected.extend(keys.into_iter().map(Into::into));
        self
    }

    /// Schedules nothing on this server: for a program that only uses [locks](crate::locks::Lock), or that only operates
    /// the jobs of other servers. [`connect`](crate::connect) is the short form.
    pub fn without_jobs(mut self) -> Self {
        self.without_jobs = true;
        self
    }

    /// Gives an annotated job another schedule. The variable `JOBS_SCHEDULES="key=0 4 * * *; other=10m"` does the same and
    /// comes before it. A time zone in the annotation stays.
    pub fn schedule(mut self, key: impl Into<String>, every: impl Into<String>) -> Self {
        self.selection.schedules.insert(key.into(), every.into());
        self
    }

    /// Does not schedule this job on this server. The variable `JOBS_DISABLE="key,other"` or `JOBS_DISABLE="*"` does the
    /// same.
    pub fn disable(mut self, key: impl Into<String>) -> Self {
        self.selection.disabled.push(key.into());
        self
    }

    /// Sets the first part of this server's [id](Jobs::server_id), which is the host's name by default. The process id
    /// and a random part follow.
    pub fn server_id(mut self, name: impl Into<String>) -> Self {
        self.server_id = Some(name.into());
        self
    }

    /// Sets the version of the application, for people: `env!("CARGO_PKG_VERSION")`, or the hash of a commit. Each run's record
    /// and each server in [`Jobs::servers`] show it.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.app_version = Some(version.into());
        self
    }

    /// Says something about this server, for people: `label("region", "eu-1")`. [`Jobs::servers`] shows it.
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(name.into(), value.into());
        self
    }

    /// Limits how many jobs run on this server at the same time. A tick that is due at the limit is left to other
    /// servers. No limit by default.
    pub fn max_concurrent(mut self, runs: usize) -> Self {
        self.max_concurrent = Some(runs);
        self
    }

    /// Sets how long a shutdown waits for runs before it cancels them: `"10s"` or a [`Duration`]. 25 s by default, because
    /// orchestrators kill a process after 30 s.
    pub fn shutdown_grace(mut self, grace: impl IntoDuration) -> Self {
        self.shutdown_grace = grace.into_duration();
        self
    }

    /// Sets how many runs, and how many skips, the store keeps per job. 100 by default.
    pub fn history_limit(mut self, runs: usize) -> Self {
        self.history_limit = runs;
        self
    }

    /// Calls a function for every event on this server: to count, to alert. It is called on the application's runtime,
    /// beside the jobs, and should be quick; [`Jobs::events`] is for code that waits.
    pub fn on_event(mut self, hook: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        self.hooks.push(EventHook(Box::new(hook)));
        self
    }

    /// Shuts the scheduler down when this token is cancelled, as [`Jobs::shutdown`] does. For a program whose parts all stop
    /// by one token.
    ///
    /// Keep the handle, and wait for its end: the process must not exit before [`Jobs::closed`] resolves.
    ///
    /// ```
    /// use jobs::CancellationToken;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let job = jobs::Job::builder("report").run(|_| async {}).build()?;
    /// let stop = CancellationToken::new();
    /// let jobs = jobs::builder().stop_with(stop.clone());
    /// # let jobs = jobs.without_annotated().url("memory://stop-with").job(job);
    /// let jobs = jobs.start_all().await?;
    /// stop.cancel(); // on SIGTERM
    /// jobs.closed().await;
    /// # Ok(()) }
    /// ```
    pub fn stop_with(mut self, token: CancellationToken) -> Self {
        self.stop_token = Some(token);
        self
    }

    /// Sets the machine's clock, for tests. Ticks follow the store's clock in any case.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Checks every setting and every job, connects to the store, and starts scheduling.
    ///
    /// May be called more than once in a process, as tests with many servers do: each call starts a server of its own, and
    /// they share the work like servers on different machines.
    pub async fn start_all(self) -> Result<Jobs, StartError> {
        let app = tokio::runtime::Handle::try_current().map_err(|_| StartError::NoRuntime)?;
        self.check_settings()?;
        if !self.without_jobs && variable("JOBS_MANIFEST").is_some() {
            let manifest = self.manifest()?;
            println!("{}", manifest.to_json());
            std::process::exit(0);
        }
        let shutdown_grace = self.shutdown_grace.map_err(|problem| {
            StartError::builder("shutdown_grace", format!("invalid duration {problem}"))
        })?;
        let CheckedJobs { jobs, disabled } = if self.without_jobs {
            CheckedJobs::default()
        } else {
            self.selection.check(&self.states, &Variables::from_environment())?
        };
        let opened = self.store.open()?;
        let runtime = SchedulerRuntime::new()?;
        let config = ServerConfig {
            id: server_id(self.server_id.as_deref()),
            store: opened.store,
            clock: self.clock,
            jobs,
            states: self.states,
            host: runtime.spawner(),
            app: Spawner::Runtime(app),
            app_version: self.app_version,
            labels: self.labels,
            max_concurrent: self.max_concurrent,
            history_limit: self.history_limit,
            shutdown_grace,
        };
        let startup = Startup {
            config,
            store_source: opened.source,
            disabled,
            allow_degraded: self.allow_degraded_start,
            hooks: self.hooks,
            stop_token: self.stop_token,
        };
        thread::start(runtime, startup).await
    }

    /// Returns the jobs that [`start_all`](Self::start_all) would schedule, with their schedules and settings, and starts nothing.
    /// Values of [`state`](Self::state) need not be there.
    ///
    /// A program that is started with `JOBS_MANIFEST=1` prints this in `start_all`, before it opens the store, and exits. `jobsctl plan`
    /// compares it with the fleet.
    pub fn manifest(self) -> Result<Manifest, StartError> {
        let CheckedJobs { jobs, .. } = self.selection.check_with(None, &Variables::from_environment())?;
        Ok(Manifest::new(self.app_version.as_deref(), &jobs))
    }

    fn check_settings(&self) -> Result<(), StartError> {
        if let Some(Err(why)) = self.server_id.as_deref().map(|name| check_name(name, "worker-1")) {
            return Err(StartError::builder("server_id", why));
        }
        if self.max_concurrent == Some(0) {
            return Err(StartError::builder("max_concurrent", "at least 1, or no job could run"));
        }
        if self.without_jobs && !self.selection.expected.is_empty() {
            return Err(StartError::builder(
                "expect_jobs",
                "it contradicts `without_jobs`; remove one of them",
            ));
        }
        if self.without_jobs && !self.store.is_named() {
            return Err(StartError::builder(
                "without_jobs",
                "name the store that the servers use, since there is no default for a program without jobs: set \
                 JOBS_URL, as in JOBS_URL=redis://localhost:6379 or JOBS_URL=file:///var/lib/shop/jobs, or call `url`",
            ));
        }
        Ok(())
    }

    /// For a worker that does nothing else: starts, waits for SIGTERM or ctrl-c, shuts down.
    pub async fn run_until_signal(self) -> Result<(), StartError> {
        let jobs = self.start_all().await?;
        let closed = tokio::select! {
            biased;
            () = signal::terminated() => Closed::ShutDown,
            closed = jobs.closed() => closed,
        };
        jobs.shutdown().await;
        if closed == Closed::Failed { Err(StartError::Ended) } else { Ok(()) }
    }
}
