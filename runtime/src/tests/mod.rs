//! Scheduler, claim, run and lease on Tokio's paused clock: hours pass in milliseconds, and every
//! interleaving of time is exact. What crosses processes is tested on real stores, in the workspace's `tests`
//! folder.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

use super::job::parameters::States;
use super::tick::clock_watch::watch_clock;
use super::tick::scheduler;
use super::util::clock::Clock;
use super::util::spawner::Spawner;
use super::{Run, Timestamp};
use crate::history::{History, RunOutcome};
use crate::job::{Job, JobBuilder};
use crate::server::{Server, ServerConfig};
use crate::store::memory::MemoryStore;
use crate::store::{FenceChange, REMEMBERED, Store, StoreError, StoreErrorKind, Swap, Topic, decide};
use crate::testing::{Hook, HookFuture, Intercept, Request, SimulatedProcess};

mod clocks;
mod dropped_claims;
mod failures;
mod health;
mod leases;
mod locks;
mod many;
mod records;
mod scheduling;
mod spans;
mod stopping;

/// Noon of some day: a multiple of every interval used here.
const NOON: Timestamp = Timestamp::from_micros(1_800_014_400_000_000);

/// A clock that shows noon when the test begins, and can be set.
struct TestClock {
    begun: Instant,
    skew_micros: AtomicI64,
}

impl TestClock {
    fn new() -> Arc<Self> {
        Arc::new(Self { begun: Instant::now(), skew_micros: AtomicI64::new(0) })
    }

    fn skewed_by_secs(secs: i64) -> Arc<Self> {
        let clock = Self::new();
        clock.skew_micros.store(secs * 1_000_000, Ordering::SeqCst);
        clock
    }

    fn step_secs(&self, secs: i64) {
        self.skew_micros.fetch_add(secs * 1_000_000, Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        let true_time = NOON + self.begun.elapsed();
        Timestamp::from_micros(true_time.as_micros() + self.skew_micros.load(Ordering::SeqCst))
    }
}

/// A memory store that can be cut off, before or after a request is applied, that has something under the key
/// "damaged" that cannot be read, and whose looks at the key "defect" panic after noon.
#[derive(Clone)]
struct Link {
    store: MemoryStore,
    clock: Arc<TestClock>,
    cut: Arc<AtomicBool>,
    /// Looks arrive, swaps do not.
    swaps_cut: Arc<AtomicBool>,
    replies_lost: Arc<AtomicBool>,
    swap_replies_lost: Arc<AtomicBool>,
    latency: Duration,
    /// Whether another program changes each record just before it is swapped.
    contended: Arc<AtomicBool>,
    /// Called after the next extension was applied, before its reply arrives.
    on_extension: Arc<Mutex<Option<Callback>>>,
    /// Every look at a key, and every swap that would win one.
    claims: Arc<Mutex<Vec<ClaimRequest>>>,
    extensions: Arc<AtomicUsize>,
    announcements: Arc<AtomicUsize>,
}

/// A request of a claim.
struct ClaimRequest {
    server: String,
    /// The token that the key would be won with; `None` for a look.
    token: Option<Arc<str>>,
}

type Callback = Box<dyn FnOnce() + Send>;

impl Link {
    fn new(clock: Arc<TestClock>) -> Self {
        Self {
            store: MemoryStore::new(clock.clone()),
            clock,
            cut: Arc::default(),
            swaps_cut: Arc::default(),
            replies_lost: Arc::default(),
            swap_replies_lost: Arc::default(),
            latency: Duration::ZERO,
            contended: Arc::default(),
            on_extension: Arc::default(),
            claims: Arc::default(),
            extensions: Arc::default(),
            announcements: Arc::default(),
        }
    }

    /// The store as this server sees it.
    fn seen_by(&self, server: &str) -> Arc<dyn Store> {
        let hook = ServerLink { link: self.clone(), server: server.to_owned() };
        Arc::new(Intercept::new(Arc::new(self.store.clone()), hook))
    }

    async fn history(&self, key: &str) -> History {
        let look = self.store.look(key).await.unwrap();
        decide::history(&look, self.store.records(&[key.to_owned()], usize::MAX).await.unwrap().remove(0))
    }

    /// The number of requests that were sent for claims.
    fn claim_requests(&self) -> usize {
        self.claims.lock().unwrap().len()
    }

    /// The tokens of the swaps among them.
    fn tokens(&self) -> Vec<Arc<str>> {
        self.claims.lock().unwrap().iter().filter_map(|request| request.token.clone()).collect()
    }
}

/// The link of one server.
struct ServerLink {
    link: Link,
    server: String,
}

impl ServerLink {
    fn note(&self, request: Request<'_>) {
        let token = match request {
            Request::Look("#ping") => return,
            Request::Look(_) => None,
            Request::Swap(_, swap) if swap.change.fence == FenceChange::Next => {
                swap.change.state.as_ref().and_then(|state| Some(state.claimant.as_ref()?.token.clone()))
            }
            Request::Swap(_, swap) => {
                self.link.extensions.fetch_add(usize::from(swap.change.grants_lease), Ordering::SeqCst);
                return;
            }
            Request::PutNote(Topic::Servers, _) => {
                self.link.announcements.fetch_add(1, Ordering::SeqCst);
                return;
            }
            _ => return,
        };
        self.link.claims.lock().unwrap().push(ClaimRequest { server: self.server.clone(), token });
    }

    fn error(kind: StoreErrorKind, cause: &str) -> StoreError {
        StoreError::new(kind, "test", "memory", cause)
    }
}

impl Hook for ServerLink {
    fn before<'a>(&'a self, request: Request<'a>) -> HookFuture<'a> {
        self.note(request);
        let is_noon = self.link.clock.now() == NOON;
        assert!(is_noon || !matches!(request, Request::Look("defect")), "a defect");
        Box::pin(async move {
            if matches!(request, Request::Look("damaged")) {
                return Err(Self::error(StoreErrorKind::Unreadable, "damaged"));
            }
            let is_cut = match request {
                Request::Swap(..) if self.link.swaps_cut.load(Ordering::SeqCst) => true,
                _ => self.link.cut.load(Ordering::SeqCst),
            };
            if is_cut {
                return Err(Self::error(StoreErrorKind::Unreachable, "the link is cut"));
            }
            if !self.link.latency.is_zero() {
                tokio::time::sleep(self.link.latency).await;
            }
            if let Request::Swap(key, _) = request
                && self.link.contended.load(Ordering::SeqCst)
            {
                self.link.store.edit(key, |_| ());
            }
            Ok(())
        })
    }

    fn after<'a>(&'a self, request: Request<'a>) -> HookFuture<'a> {
        let lost = match request {
            Request::Swap(..) if self.link.swap_replies_lost.load(Ordering::SeqCst) => true,
            _ => self.link.replies_lost.load(Ordering::SeqCst),
        };
        let lost = lost.then(|| Self::error(StoreErrorKind::Unreachable, "the reply is lost"));
        if let Request::Swap(_, Swap { change, .. }) = request
            && change.grants_lease
            && change.fence != FenceChange::Next
            && let Some(callback) = self.link.on_extension.lock().unwrap().take()
        {
            callback();
        }
        Box::pin(std::future::ready(lost.map_or(Ok(()), Err)))
    }
}

fn server(name: &str, link: &Link, clock: Arc<TestClock>) -> Arc<Server> {
    server_with(name, link, clock, None)
}

fn server_with(name: &str, link: &Link, clock: Arc<TestClock>, max_concurrent: Option<usize>) -> Arc<Server> {
    Arc::new(Server::new(ServerConfig { max_concurrent, ..setup(name, link, clock) }))
}

fn setup(name: &str, link: &Link, clock: Arc<TestClock>) -> ServerConfig {
    let here = Spawner::Runtime(tokio::runtime::Handle::current());
    ServerConfig {
        id: name.to_owned(),
        store: link.seen_by(name),
        clock,
        jobs: Vec::new(),
        states: States::default(),
        host: here.clone(),
        app: here,
        max_concurrent: None,
        app_version: None,
        labels: BTreeMap::new(),
        history_limit: REMEMBERED,
        shutdown_grace: Duration::from_secs(25),
    }
}

/// Schedules a job on a server, as the scheduler's thread does.
fn schedule(server: &Arc<Server>, job: Job) {
    schedule_all(server, vec![job]);
}

fn schedule_all(server: &Arc<Server>, jobs: Vec<Job>) {
    let jobs = jobs.into_iter().map(Arc::new).collect();
    let (server, stop) = (server.clone(), server.shutting_down.clone());
    tokio::spawn(async move {
        tokio::select! {
            biased;
            () = stop.raised() => {}
            () = scheduler::schedule(server, jobs) => {}
        }
    });
}

fn job(every: &str, ttl_secs: u64) -> JobBuilder {
    Job::builder("job").every(every).ttl(Duration::from_secs(ttl_secs))
}

/// The server and tick of every run that started.
#[derive(Clone, Default)]
struct Runs(Arc<Mutex<Vec<(String, Timestamp)>>>);

impl Runs {
    fn note(&self, run: &Run) {
        self.0.lock().unwrap().push((run.server().to_owned(), run.tick().unwrap()));
    }

    /// A job that notes its runs and does nothing else.
    fn noting(&self, job: JobBuilder) -> Job {
        let runs = self.clone();
        job.run(move |run| {
            runs.note(&run);
            std::future::ready(())
        })
        // Some tests use settings beyond the rules.
        .build_unchecked()
    }

    /// The ticks that ran, as seconds after noon.
    fn ticks(&self) -> Vec<u64> {
        self.0.lock().unwrap().iter().map(|(_, tick)| tick.since(NOON).as_secs()).collect()
    }
}

async fn seconds(secs: u64) {
    tokio::time::sleep(Duration::from_secs(secs)).await;
}

async fn outcomes(link: &Link) -> Vec<RunOutcome> {
    link.history("job").await.runs.iter().rev().map(|run| run.outcome).collect()
}
