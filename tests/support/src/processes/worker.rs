//! The other side of a fleet: a process that runs a scheduler and tells its parent what happens.
//!
//! It is the test binary once more, so one test of the binary is its entry and begins with
//! `if worker::begin() { return; }`. What it does is said in `WORKER_…` variables, and where in the same
//! `JOBS_…` variables as in production.

use std::io::{BufRead, Write};
use std::time::Duration;

use jobs::clock::Clock;
use jobs::schedule::{Missed, OnLost, Overlap};
use jobs::{Builder, Health, Job, Jobs, Run, RunNow, Timestamp};
use tokio::sync::mpsc;

/// Tells a worker's words from the test harness's.
pub const MARK: char = '@';

/// The job of every worker.
pub const KEY: &str = "import";

/// In a worker: does what it was started for, and returns true.
pub fn begin() -> bool {
    let Some(role) = setting("ROLE") else { return false };
    let mut runtime = match number("THREADS", 2) {
        1 => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    let runtime = runtime.enable_all().build().expect("a runtime");
    runtime.block_on(async {
        match role.as_str() {
            "serve" => serve().await,
            "serve until signal" => serve_until_signal().await,
            role => crate::racer::race(role).await,
        }
    });
    true
}

/// A `WORKER_…` variable.
pub fn setting(name: &str) -> Option<String> {
    std::env::var(format!("WORKER_{name}")).ok()
}

/// A `WORKER_…` variable that is a number.
pub fn number(name: &str, default: i64) -> i64 {
    setting(name).map_or(default, |text| text.parse().expect("a number"))
}

fn millis(name: &str) -> Option<Duration> {
    setting(name).map(|text| Duration::from_millis(text.parse().expect("milliseconds")))
}

/// Tells the parent one line, at once.
pub fn tell(line: &str) {
    println!("{MARK}{line}");
}

/// A clock that is wrong by a constant.
struct Skewed(i64);

impl Clock for Skewed {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(Timestamp::now().as_micros() + self.0)
    }
}

async fn serve() {
    log_to_parent();
    let mut servers = Vec::new();
    for _ in 0..number("SERVERS", 1) {
        match builder().start_all().await {
            Ok(jobs) => servers.push(jobs),
            Err(error) => return tell(&format!("refused {}", error.to_string().replace('\n', "\\n"))),
        }
    }
    tell(&format!("ready {}", servers[0].server_id()));
    let mut orders = orders();
    let mut health = Health::Ready;
    loop {
        let order = tokio::time::timeout(Duration::from_millis(20), orders.recv()).await;
        let Ok(order) = order else {
            tell_health(&servers[0], &mut health);
            continue;
        };
        match order.as_deref() {
            Some("shutdown") => {
                for server in servers.drain(..) {
                    server.shutdown().await;
                }
                tell("down");
                break;
            }
            Some("drop") => {
                servers.clear();
                tell("dropped");
                break;
            }
            Some(order) if order.starts_with("block ") => block(&servers[0], &order["block ".len()..]),
            Some(order) => obey(&servers[0], order).await,
            None => return,
        }
    }
    orders.recv().await;
}

/// Blocks this thread for so many milliseconds, as a deadlock does: with one thread, all of the application. Tells from
/// another thread what a readiness probe would see near the end of it.
fn block(jobs: &Jobs, millis: &str) {
    let lasts = Duration::from_millis(millis.parse().expect("milliseconds"));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(lasts * 3 / 4);
            tell(&format!("blocked {:?}", jobs.health()));
        });
        std::thread::sleep(lasts);
    });
    tell("unblocked");
}

/// What an operator does on a server: `pause import`, `run_now import` …
async fn obey(jobs: &Jobs, order: &str) {
    let (what, key) = order.split_once(' ').expect("an order and a key");
    let answer = match what {
        "pause" => format!("{:?}", jobs.pause(key).await),
        "resume" => format!("{:?}", jobs.resume(key).await),
        "run_now" => match jobs.run_now(key).await {
            Ok(RunNow::Ran(record)) => format!("ran {} {} {}", record.outcome, record.server, record.fence),
            other => format!("{other:?}"),
        },
        what => panic!("no such order: {what}"),
    };
    tell(&format!("{what} {answer}"));
}

async fn serve_until_signal() {
    log_to_parent();
    builder().run_until_signal().await.expect("the store is there");
    tell("down");
}

pub fn builder() -> Builder {
    let mut builder = jobs::builder().without_annotated().clock(Skewed(number("SKEW", 0) * 1000));
    for key in setting("KEYS").as_deref().unwrap_or(KEY).split(',') {
        builder = builder.job(job(key));
    }
    if let Some(grace) = millis("SHUTDOWN_GRACE") {
        builder = builder.shutdown_grace(grace);
    }
    if setting("START_DEGRADED").is_some() {
        builder = builder.allow_degraded_start();
    }
    builder
}

/// A job whose schedule is in the setting, or in the one that its key ends with.
fn job(key: &str) -> Job {
    let every = setting(&format!("EVERY_{key}")).or_else(|| setting("EVERY"));
    let mut job = Job::builder(key).every(every.as_deref().unwrap_or("1s"));
    if let Some(ttl) = millis("TTL") {
        job = job.ttl(ttl);
    }
    if let Some(grace) = millis("GRACE") {
        job = job.grace(grace);
    }
    if setting("ON_LOST").as_deref() == Some("continue") {
        job = job.on_lost(OnLost::Continue);
    }
    if setting("OVERLAP").as_deref() == Some("queue") {
        job = job.overlap(Overlap::Queue);
    }
    if setting("MISSED").as_deref() == Some("run_once") {
        job = job.missed(Missed::RunOnce);
    }
    if let takeovers @ 1.. = number("TAKEOVERS", 0) {
        job = job.retry_on_crash(takeovers.try_into().expect("a number"));
    }
    job.run(work).build().unwrap()
}

/// A run: blocks if asked to, takes its steps, and reports each.
async fn work(run: Run) {
    report("start", &run, "");
    if let Some(block) = millis("BLOCK") {
        std::thread::sleep(block);
    }
    let pause = millis("STEP").unwrap_or(Duration::from_millis(100));
    let steps = number(&format!("STEPS_{}", run.key()), number("STEPS", 0));
    for _ in 0..steps {
        tokio::time::sleep(pause).await;
        let written = match setting("WRITES") {
            Some(redis) => write(&run, &redis).await,
            None => String::new(),
        };
        report("step", &run, &written);
    }
    report("end", &run, "");
}

/// Writes the fence to two places of a Redis that is the job's database: one that compares it with the highest it has seen, one that does not.
async fn write(run: &Run, redis: &str) -> String {
    const IF_NOT_OVERTAKEN: &str = "
        if tonumber(redis.call('GET', KEYS[1]) or 0) > tonumber(ARGV[1]) then return 'refused' end
        redis.call('SET', KEYS[1], ARGV[1])
        return 'accepted'";
    let client = redis::Client::open(redis).expect("a URL");
    // A process that was stopped in the middle of a write is not told that it took too long.
    let patience =
        redis::AsyncConnectionConfig::new().set_response_timeout(None).set_connection_timeout(None);
    let client = client.get_multiplexed_async_connection_with_config(&patience).await;
    let mut client = client.expect("a connection");
    let script = redis::Script::new(IF_NOT_OVERTAKEN);
    let fenced: String = script
        .key(format!("fenced:{}", run.key()))
        .arg(run.fence())
        .invoke_async(&mut client)
        .await
        .expect("a fenced write");
    let mut set = redis::cmd("SET");
    let unfenced: Option<i64> = set
        .arg(format!("unfenced:{}", run.key()))
        .arg(run.fence())
        .arg("GET")
        .query_async(&mut client)
        .await
        .expect("a write");
    let stale = unfenced.is_some_and(|newer| newer > run.fence());
    format!("fenced {fenced}, unfenced {}", if stale { "overwrote its successor" } else { "written" })
}

fn report(what: &str, run: &Run, note: &str) {
    let tick = run.tick().map_or(0, Timestamp::as_micros);
    let now = Timestamp::now().as_micros();
    let (server, fence, attempt, key) = (run.server(), run.fence(), run.attempt(), run.key());
    tell(&format!("run {what} {server} {tick} {fence} {attempt} {now} {key} {note}"));
}

fn tell_health(jobs: &Jobs, last: &mut Health) {
    let health = jobs.health();
    if health.is_ready() != last.is_ready() {
        tell(&format!("health {health:?}"));
    }
    *last = health;
}

/// What the parent says, line by line, until it is gone.
pub fn orders() -> mpsc::UnboundedReceiver<String> {
    let (send, orders) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if send.send(line).is_err() {
                return;
            }
        }
    });
    orders
}

pub fn log_to_parent() {
    tracing_subscriber::fmt()
        .with_env_filter("jobs=debug")
        .with_ansi(false)
        .without_time()
        .with_target(false)
        .with_writer(|| LogLine)
        .init();
}

struct LogLine;

impl Write for LogLine {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        tell(&format!("log {}", String::from_utf8_lossy(line).trim()));
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
