//! A thousand jobs with twenty runs each on real servers, and twenty viewers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use jobs::dashboard::Dashboard;
use jobs::history::{RunOutcome, RunRecord, Stats, Trigger};
use jobs::store::memory::MemoryStore;
use jobs::store::postgres::PostgresStore;
use jobs::store::redis::RedisStore;
use jobs::store::{Change, FenceChange, JobRecord, KeyState, Store, Swap, SwapReply};
use jobs::testing::{Hook, HookFuture, Intercept, Request};
use jobs::{Job, Jobs, Timestamp};
use support::postgres_server::{PATIENCE, PostgresServer};
use support::redis_server::RedisServer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::sleep;

use super::site::{get, serve};

const NAMESPACE: &str = "many";
const JOBS: u32 = 1000;
const RUNS: u32 = 20;

/// The first byte of a page of a fleet of this size.
const LIMIT: Duration = Duration::from_millis(200);
const LARGEST: usize = 500_000;

const PAGES: [&str; 7] = [
    "/overview",
    "/overview?page=7",
    "/overview?q=supplier-09",
    "/overview?sort=slowest",
    "/job?key=import/supplier-0007",
    "/servers",
    "/timeline?range=week",
];

fn key(number: u32) -> String {
    format!("import/supplier-{number:04}")
}

/// Once a day, each at a minute of its own.
fn schedule(number: u32) -> String {
    format!("{} {} * * *", number % 60, number / 60)
}

async fn thousand_jobs(url: &str) -> Jobs {
    let job = |number: u32| {
        let job = Job::builder(key(number)).every_in(schedule(number), "Europe/Berlin");
        let job = job.description("Pulls the products of a supplier, with prices and images, into the shop.");
        job.run(|_| async { Ok::<_, std::io::Error>(()) }).build().expect("a valid job")
    };
    let builder = jobs::builder().url(url).namespace(NAMESPACE).without_annotated();
    builder.jobs((0..JOBS).map(job)).max_concurrent(50).start_all().await.expect("a server")
}

/// Writes the history of each job, as its runs would have: one swap instead of forty.
async fn write_histories(store: &dyn Store) {
    for number in 0..JOBS {
        write_history(store, number).await;
    }
}

async fn write_history(store: &dyn Store, number: u32) {
    let look = store.look(&key(number)).await.expect("a look");
    let runs = (0..RUNS).map(|run| JobRecord::Run(record(look.now, number, run)));
    let stats = Stats {
        runs: u64::from(RUNS),
        successes: u64::from(RUNS) - 2,
        failures: 2,
        total_micros: u64::from(RUNS - 2) * 1_500_000,
        longest_micros: 1_500_000,
        ..look.state.stats
    };
    let change = Change {
        state: Some(Arc::new(KeyState { stats, expires: None, ..(*look.state).clone() })),
        fence: FenceChange::Next,
        records: runs.collect(),
        keep: 100,
        ..Change::default()
    };
    let swap = Swap { expected: look.version, expected_lock: None, nonce: u64::from(number) + 1, change };
    let reply = store.swap(&key(number), &swap).await.expect("a reply");
    assert!(matches!(reply, SwapReply::Swapped(_)), "{reply:?}");
}

/// A run of one of the last days; one in ten has failed.
fn record(now: Timestamp, number: u32, run: u32) -> RunRecord {
    let tick =
        now - Duration::from_secs(u64::from(RUNS - run) * 8 * 3600) + Duration::from_secs(u64::from(number));
    let failed = (number + run).is_multiple_of(10);
    RunRecord {
        tick: Some(tick),
        server: format!("shop-{}-4242-c0ffee", number % 7),
        fence: tick.as_micros(),
        attempt: 1,
        started: tick + Duration::from_millis(12),
        ended: tick + Duration::from_millis(1512),
        outcome: if failed { RunOutcome::Failed } else { RunOutcome::Succeeded },
        error: failed.then(|| "supplier answered 503: try again later".to_owned()),
        failed_tries: Vec::new(),
        log: None,
        progress: None,
        request: None,
        trigger: Trigger::Schedule,
        by: None,
        stopped_by: None,
        app_version: Some("1.4.2".to_owned()),
    }
}

/// Opens a page: the time to its first byte, and the whole answer.
async fn open(address: &str, page: &str) -> (Duration, Vec<u8>) {
    let begun = Instant::now();
    let mut connection = TcpStream::connect(address).await.expect("the dashboard");
    let head = format!("GET {page} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    connection.write_all(head.as_bytes()).await.expect("a request");
    let mut content = vec![0; 1];
    connection.read_exact(&mut content).await.expect("an answer");
    let first_byte = begun.elapsed();
    connection.read_to_end(&mut content).await.expect("an answer");
    assert!(content.starts_with(b"HTTP/1.1 200"), "{page}");
    (first_byte, content)
}

/// Holds a page open, as a browser does.
async fn view(address: String, page: &'static str) {
    let mut viewer = TcpStream::connect(&address).await.expect("the dashboard");
    let head = format!("GET /events?page={page} HTTP/1.1\r\nHost: {address}\r\n\r\n");
    viewer.write_all(head.as_bytes()).await.expect("a request");
    let mut buffer = vec![0; 100_000];
    while viewer.read(&mut buffer).await.is_ok_and(|length| length > 0) {}
}

/// Who has looked at the dashboard before a page is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    /// No viewer since the program started: everything is read.
    Never,
    /// A viewer some time ago: what has changed since is read.
    Earlier,
    /// A viewer now: nothing is read.
    Now,
}

impl Before {
    /// The build of the tests is not optimised, and reads about ten times slower: `./tests/run --soak` measures an optimised one.
    fn has_limit(self) -> bool {
        self == Self::Now || !cfg!(debug_assertions)
    }
}

#[derive(Default)]
struct Measured {
    late: Vec<String>,
}

impl Measured {
    async fn page(&mut self, address: &str, page: &str, before: Before) {
        let (mut first_byte, content) = open(address, page).await;
        if before == Before::Now {
            // Other tests keep the machine busy.
            for _ in 0..2 {
                first_byte = first_byte.min(open(address, page).await.0);
            }
        }
        let looked = format!("{before:?}").to_lowercase();
        println!(
            "looked {looked:8} {page:32} first byte after {first_byte:>7.1?}, {:6} bytes",
            content.len()
        );
        assert!(content.len() < LARGEST, "{page}: {} bytes", content.len());
        if before.has_limit() && first_byte >= LIMIT {
            self.late.push(format!("{before:?}: {page}: {first_byte:?}"));
        }
    }
}

async fn pages_are_quick(url: &str, store: &dyn Store) {
    let jobs = thousand_jobs(url).await;
    write_histories(store).await;
    let dashboard = || async { serve(Dashboard::new(jobs.clone()).into_router()).await };
    let mut measured = Measured::default();
    for page in PAGES {
        measured.page(&dashboard().await, page, Before::Never).await;
    }
    let address = dashboard().await;
    for (page, age) in [("/overview", 4), ("/timeline", 6)] {
        open(&address, page).await;
        sleep(Duration::from_secs(age)).await;
        measured.page(&address, page, Before::Earlier).await;
    }
    let viewers = ["overview", "timeline"].map(|page| tokio::spawn(view(address.clone(), page)));
    sleep(Duration::from_secs(3)).await;
    for page in PAGES {
        measured.page(&address, page, Before::Now).await;
    }
    viewers.iter().for_each(tokio::task::JoinHandle::abort);
    let shown = get(&address, "/overview").await.text;
    assert!(shown.contains(&format!("{JOBS} jobs")) && shown.contains("Last 20 runs"), "{shown}");
    jobs.shutdown().await;
    assert!(measured.late.is_empty(), "{}", measured.late.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_a_thousand_jobs_on_redis_are_quick() {
    let redis = RedisServer::start();
    let store = RedisStore::open(&redis.url(), Some(NAMESPACE)).expect("a store");
    let store = store.with_timeouts(PATIENCE, PATIENCE);
    pages_are_quick(&redis.url(), &store).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_a_thousand_jobs_on_postgresql_are_quick() {
    let url = PostgresServer::shared().url();
    let store = PostgresStore::open(&url, Some(NAMESPACE)).expect("a store");
    let store = store.with_timeouts(PATIENCE, PATIENCE);
    pages_are_quick(&url, &store).await;
}

/// Counts the jobs whose records are read.
#[derive(Clone, Default)]
struct RecordReads(Arc<AtomicUsize>);

impl Hook for RecordReads {
    fn before<'a>(&'a self, request: Request<'a>) -> HookFuture<'a> {
        if let Request::Records(keys) = request {
            self.0.fetch_add(keys.len(), Ordering::SeqCst);
        }
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Why pages are quick, in every build: a poll reads the runs of those jobs only that have changed.
#[tokio::test(flavor = "multi_thread")]
async fn runs_of_jobs_that_have_not_changed_are_not_read_again() {
    let job = |number| Job::builder(key(number)).run(|_| async {}).build().expect("a valid job");
    let (store, reads) = (|| MemoryStore::named("unchanged"), RecordReads::default());
    let worker = jobs::builder().without_annotated().jobs((0..50).map(job)).store(store());
    let worker = worker.start_all().await.unwrap();
    for number in 0..50 {
        worker.run_now(&key(number)).await.unwrap();
    }
    let watched = Intercept::new(Arc::new(store()), reads.clone());
    let office = jobs::builder().without_jobs().store(watched).start_all().await.unwrap();
    let address = serve(Dashboard::new(office.clone()).into_router()).await;
    let read_for = async |page: &str| {
        sleep(Duration::from_millis(1100)).await;
        reads.0.store(0, Ordering::SeqCst);
        let shown = get(&address, page).await;
        (reads.0.load(Ordering::SeqCst), shown)
    };
    assert_eq!(read_for("/api/v1/jobs").await.0, 50, "the control: all are read once");
    assert_eq!(read_for("/api/v1/jobs").await.0, 0);
    worker.run_now(&key(7)).await.unwrap();
    let (read, shown) = read_for("/api/v1/jobs?q=0007").await;
    let shown: serde_json::Value = serde_json::from_str(shown.body()).unwrap();
    assert_eq!((read, shown["jobs"][0]["runs"].as_array().map(Vec::len)), (1, Some(2)));
    assert_eq!(read_for("/api/v1/timeline").await.0, 50, "with more runs of each");
    sleep(Duration::from_secs(5)).await;
    assert_eq!(read_for("/api/v1/timeline").await.0, 0);
    office.shutdown().await;
    worker.shutdown().await;
}

/// The first page is to appear at once; everything else has all runs.
#[tokio::test(flavor = "multi_thread")]
async fn first_page_has_few_runs_and_all_others_follow() {
    let job = Job::builder(key(1)).run(|_| async {}).build().expect("a valid job");
    let jobs = jobs::builder().without_annotated().job(job).url("memory://first-page");
    let jobs = jobs.start_all().await.unwrap();
    for _ in 0..5 {
        jobs.run_now(&key(1)).await.unwrap();
    }
    let address = serve(Dashboard::new(jobs.clone()).into_router()).await;
    let shows =
        async |runs: u32| get(&address, "/overview").await.text.contains(&format!("Last {runs} runs"));
    assert!(shows(3).await && shows(3).await, "a second page at once does not wait");
    let twin = get(&address, "/api/v1/jobs").await;
    let twin: serde_json::Value = serde_json::from_str(twin.body()).unwrap();
    assert_eq!(twin["jobs"][0]["runs"].as_array().map(Vec::len), Some(5));
    assert!(shows(5).await);
    jobs.shutdown().await;
}

/// The requests that the server has answered: those that list or read records of jobs.
async fn reads(redis: &RedisServer) -> u64 {
    let mut client = redis.client().await;
    let stats: String =
        redis::cmd("INFO").arg("commandstats").query_async(&mut client).await.expect("statistics");
    let scans = stats.lines().find(|line| line.starts_with("cmdstat_scan:"));
    scans.and_then(|line| line.split("calls=").nth(1)?.split(',').next()?.parse().ok()).unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn store_is_polled_once_per_second_by_twenty_viewers_and_not_at_all_by_none() {
    let redis = RedisServer::start();
    let jobs = thousand_jobs(&redis.url()).await;
    let address = serve(Dashboard::new(jobs.clone()).into_router()).await;
    sleep(Duration::from_secs(1)).await;

    // The requests of one poll.
    let before = reads(&redis).await;
    jobs.overview().await.expect("an overview");
    let per_poll = reads(&redis).await - before;
    assert!(per_poll > 0, "polls are not recognized any more");

    // No viewer is connected.
    get(&address, "/overview").await;
    let before = reads(&redis).await;
    sleep(Duration::from_secs(3)).await;
    assert_eq!((reads(&redis).await - before) / per_poll, 0, "polls without a viewer");

    // Twenty look at different pages, and some reload theirs.
    let pages = ["overview", "timeline", "servers", "locks"];
    let viewers: Vec<_> =
        pages.iter().cycle().take(20).map(|page| tokio::spawn(view(address.clone(), page))).collect();
    let (before, begun) = (reads(&redis).await, Instant::now());
    for _ in 0..10 {
        sleep(Duration::from_millis(500)).await;
        get(&address, "/overview").await;
        get(&address, "/api/v1/jobs").await;
    }
    let (polls, seconds) = ((reads(&redis).await - before) / per_poll, begun.elapsed().as_secs_f64());
    println!("{polls} polls in {seconds:.1} s with 20 viewers");
    assert!(polls >= 2, "the control: {polls} polls");
    assert!(f64::from(u32::try_from(polls).unwrap()) <= seconds + 1.0, "{polls} polls in {seconds:.1} s");
    viewers.iter().for_each(tokio::task::JoinHandle::abort);
    jobs.shutdown().await;
}
