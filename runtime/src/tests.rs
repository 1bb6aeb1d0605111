//! Scheduler, claim, run and lease on Tokio's paused clock: hours pass in milliseconds, and every interleaving
//! of time is exact. What crosses processes is tested on real stores, in the workspace's `tests` folder.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

use crate::clock::Clock;
use crate::clock_watch::watch_clock;
use crate::extract::States;
use crate::job::{Job, JobBuilder};
use crate::place::{Place, Stage};
use crate::server::{Server, Setup};
use crate::store::memory::MemoryStore;
use crate::store::{
    Announcement, Claim, Ending, ExtendReply, ForgetReply, HeldLock, History, Lease, ListenFuture,
    REMEMBERED, ReleaseReply, RequestHint, Requested, RunOutcome, RunRequest, ServerInfo, Store, StoreError,
    StoreErrorKind, StoreFuture, Verdict, What,
};
use crate::{Run, Timestamp, scheduler};

mod clocks;
mod leases;
mod locks;
mod many;
mod records;
mod requests;
mod scheduling;
mod trouble;

/// Noon of some day; a multiple of every interval used here.
const NOON: Timestamp = Timestamp::from_micros(1_800_014_400_000_000);

/// Shows noon when the test begins, and can be set.
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
        let true_time = NOON.plus(self.begun.elapsed());
        Timestamp::from_micros(true_time.as_micros() + self.skew_micros.load(Ordering::SeqCst))
    }
}

/// A memory store that can be cut off, before or after a step is applied, that holds something under the key "damaged" that
/// nobody can read, and that has a defect of its own under the key "defect", after noon.
#[derive(Clone)]
struct Link {
    store: MemoryStore,
    cut: Arc<AtomicBool>,
    replies_lost: Arc<AtomicBool>,
    latency: Duration,
    /// After the next extension was decided, before its reply arrives.
    on_extension: Arc<Mutex<Option<Happening>>>,
    claims: Arc<Mutex<Vec<Claim>>>,
    extensions: Arc<AtomicUsize>,
    announcements: Arc<AtomicUsize>,
}

impl Link {
    fn new(clock: Arc<TestClock>) -> Self {
        Self {
            store: MemoryStore::new(clock),
            cut: Arc::default(),
            replies_lost: Arc::default(),
            latency: Duration::ZERO,
            on_extension: Arc::default(),
            claims: Arc::default(),
            extensions: Arc::default(),
            announcements: Arc::default(),
        }
    }

    fn carry<'a, T: Send + 'a>(
        &'a self,
        step: impl FnOnce() -> StoreFuture<'a, T> + Send + 'a,
    ) -> StoreFuture<'a, T> {
        let lost =
            || StoreError::new(StoreErrorKind::Unreachable, "test", self.store.location(), "the link is cut");
        Box::pin(async move {
            if self.cut.load(Ordering::SeqCst) {
                return Err(lost());
            }
            if !self.latency.is_zero() {
                tokio::time::sleep(self.latency).await;
            }
            let reply = step().await;
            if self.replies_lost.load(Ordering::SeqCst) { Err(lost()) } else { reply }
        })
    }
}

impl Store for Link {
    fn location(&self) -> String {
        self.store.location()
    }
    fn ping(&self) -> StoreFuture<'_, ()> {
        self.carry(|| self.store.ping())
    }
    fn claim<'a>(&'a self, key: &'a str, claim: &'a Claim) -> StoreFuture<'a, Verdict> {
        self.claims.lock().unwrap().push(claim.clone());
        if key == "damaged" {
            let error = StoreError::new(StoreErrorKind::Unreadable, "claim", self.location(), "damaged");
            return Box::pin(std::future::ready(Err(error)));
        }
        let noon = matches!(&claim.what, What::Tick(ask) if ask.tick == NOON);
        assert!(noon || key != "defect", "a defect");
        self.carry(|| self.store.claim(key, claim))
    }
    fn extend<'a>(&'a self, key: &'a str, lease: &'a Lease) -> StoreFuture<'a, ExtendReply> {
        self.extensions.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            let reply = self.carry(|| self.store.extend(key, lease)).await;
            if let Some(happens) = self.on_extension.lock().unwrap().take() {
                happens();
            }
            reply
        })
    }
    fn release<'a>(
        &'a self,
        key: &'a str,
        lease: &'a Lease,
        end: &'a Ending,
    ) -> StoreFuture<'a, ReleaseReply> {
        self.carry(|| self.store.release(key, lease, end))
    }
    fn set_paused<'a>(&'a self, key: &'a str, paused: bool) -> StoreFuture<'a, ()> {
        self.carry(move || self.store.set_paused(key, paused))
    }
    fn reset<'a>(&'a self, key: &'a str) -> StoreFuture<'a, ()> {
        self.carry(|| self.store.reset(key))
    }
    fn history<'a>(&'a self, key: &'a str) -> StoreFuture<'a, History> {
        self.carry(|| self.store.history(key))
    }
    fn forget<'a>(&'a self, key: &'a str, quiet: Duration) -> StoreFuture<'a, ForgetReply> {
        self.carry(move || self.store.forget(key, quiet))
    }
    fn request<'a>(&'a self, key: &'a str, request: &'a RunRequest) -> StoreFuture<'a, Requested> {
        self.carry(|| self.store.request(key, request))
    }
    fn break_lock<'a>(&'a self, key: &'a str, remember: usize) -> StoreFuture<'a, Vec<HeldLock>> {
        self.carry(move || self.store.break_lock(key, remember))
    }
    fn locks(&self) -> StoreFuture<'_, Vec<HeldLock>> {
        self.carry(|| self.store.locks())
    }
    fn listen<'a>(&'a self, key: &'a str) -> ListenFuture<'a> {
        self.store.listen(key)
    }
    fn announce<'a>(&'a self, announcement: &'a Announcement) -> StoreFuture<'a, Vec<RequestHint>> {
        self.announcements.fetch_add(1, Ordering::SeqCst);
        self.carry(|| self.store.announce(announcement))
    }
    fn leave<'a>(&'a self, server: &'a str) -> StoreFuture<'a, ()> {
        self.carry(|| self.store.leave(server))
    }
    fn servers(&self) -> StoreFuture<'_, Vec<ServerInfo>> {
        self.carry(|| self.store.servers())
    }
}

type Happening = Box<dyn FnOnce() + Send>;

fn server(name: &str, link: &Link, clock: Arc<TestClock>) -> Arc<Server> {
    server_with(name, link, clock, None)
}

fn server_with(name: &str, link: &Link, clock: Arc<TestClock>, max_concurrent: Option<usize>) -> Arc<Server> {
    Arc::new(Server::new(Setup { max_concurrent, ..setup(name, link, clock) }))
}

fn setup(name: &str, link: &Link, clock: Arc<TestClock>) -> Setup {
    let here = Place::runtime(tokio::runtime::Handle::current());
    Setup {
        id: name.to_owned(),
        store: Arc::new(link.clone()),
        clock,
        jobs: Vec::new(),
        states: States::default(),
        host: here.clone(),
        app: here,
        max_concurrent: None,
        remember: REMEMBERED,
    }
}

/// Schedules a job on a server, as the host does.
fn schedule(server: &Arc<Server>, job: Job) {
    schedule_all(server, vec![job]);
}

fn schedule_all(server: &Arc<Server>, jobs: Vec<Job>) {
    let jobs = jobs.into_iter().map(Arc::new).collect();
    let (server, stop) = (server.clone(), server.stop.clone());
    tokio::spawn(async move {
        tokio::select! {
            biased;
            () = stop.raised() => {}
            () = scheduler::schedule(server, jobs) => {}
        }
    });
}

fn job(every: &str, ttl_secs: u64) -> JobBuilder {
    Job::new("job").every(every).unwrap().ttl(Duration::from_secs(ttl_secs))
}

/// Every run that began: its server and tick.
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
    let history = link.store.history("job").await.unwrap().reply;
    history.runs.iter().rev().map(|run| run.outcome).collect()
}
