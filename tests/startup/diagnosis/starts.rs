//! What a start makes of a diagnosis: lines in the log, a refusal, or nothing.

use std::time::{Duration, Instant};

use jobs::Timestamp;
use jobs::clock::Clock;
use jobs::diagnosis::{FindingKind, Severity};

use super::{builder, door, only};
use support::fleet::{Orders, Worker, field};
use support::hand::Hand;
use support::redis_server::RedisServer;

/// The lines of the log that somebody should read.
fn loud(server: &Worker) -> Vec<String> {
    let is_loud = |line: &String| line.starts_with("WARN") || line.starts_with("ERROR");
    server.log().into_iter().filter(is_loud).collect()
}

/// The loud lines up to the first run, but for ticks that a slow machine missed.
fn complaints(server: &Worker) -> Vec<String> {
    server.wait_for("run end");
    loud(server).into_iter().filter(|line| field(line, "outcome").is_none()).collect()
}

#[test]
fn durable_server_causes_no_warning_in_the_log() {
    let redis = RedisServer::start_with(&["--appendonly", "yes"]);
    let server = Orders::serve(&redis).start();
    assert_eq!(complaints(&server), Vec::<String>::new());
}

#[test]
fn each_finding_is_one_warning_in_the_log() {
    let redis = RedisServer::start_with(&["--maxmemory-policy", "allkeys-lru"]);
    let server = Orders::serve(&redis).start();
    let complaints = complaints(&server);
    assert_eq!(complaints.len(), 2, "{complaints:?}");
    for (kind, says) in [
        ("Evicts", "the maxmemory-policy of the Redis server is allkeys-lru"),
        ("NotDurable", "keeps nothing on disk"),
    ] {
        let of_kind = |line: &&String| field(line, "finding").as_deref() == Some(kind);
        let line = complaints.iter().find(of_kind).expect(kind);
        assert!(line.starts_with("WARN") && line.contains(says), "{line}");
        assert_eq!(field(line, "store"), Some(redis.url()), "{line}");
    }
}

#[test]
fn a_replica_ends_the_start_and_with_a_degraded_one_it_is_an_error_in_the_log() {
    let redis = RedisServer::start_with(&["--replicaof", "127.0.0.1", "1"]);
    let refused = Orders::serve(&redis).start().wait_for("refused");
    assert!(refused.contains("the store from JOBS_URL") && refused.contains("is a replica of"), "{refused}");

    let server = Orders::serve(&redis).set("WORKER_START_DEGRADED", 1).start();
    server.wait_for("ready");
    let line = server.wait_for_log("is a replica of 127.0.0.1:1");
    assert!(line.starts_with("ERROR"), "{line}");
    let () = Hand::on(&redis).say("REPLICAOF NO ONE");
    server.wait_for("run end");
}

/// The commands that the page of permissions requires, without its optional last line; the test of permissions shows that
/// none of them is idle.
#[test]
fn documented_permissions_suffice_for_a_start() {
    let redis = RedisServer::start();
    let page = include_str!("../../../runtime/src/docs/permissions.md");
    let (_, rules) = page.split_once("ACL SETUSER jobs on >password").unwrap();
    let (required, _optional) = rules.split_once("\n```").unwrap().0.rsplit_once('\n').unwrap();
    let words = required.split_whitespace().filter(|word| word.starts_with('+'));
    let commands: Vec<_> = words.map(str::to_uppercase).collect();
    assert!(commands.len() > 10 && !commands.contains(&"+INFO".to_owned()), "{commands:?}");
    let rules = format!("ACL SETUSER app reset on >secret ~* {}", commands.join(" "));
    let () = Hand::on(&redis).say(&rules);
    let url = redis.url().replace("//", "//app:secret@");
    let server = Orders::role("serve").set("JOBS_URL", url).start();
    assert_eq!(complaints(&server), Vec::<String>::new());
    let line = server.wait_for_log("may not run INFO");
    assert!(line.starts_with("DEBUG"), "{line}");
}

/// A clock that is wrong by so many seconds.
struct Skewed(i64);

impl Clock for Skewed {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(Timestamp::now().as_micros() + self.0 * 1_000_000)
    }
}

#[tokio::test]
async fn clock_that_differs_by_more_than_a_second_is_reported() {
    for (ahead, says) in [(5, "ahead of the store's"), (-5, "behind the store's")] {
        let builder = builder("memory://diagnosis-of-clocks", 60).clock(Skewed(ahead));
        let jobs = builder.start_all().await.expect("a start");
        let findings = jobs.diagnose().await.expect("it answers");
        only(&findings, FindingKind::ClockDiffers, Severity::Warning, &[says, "synchronise"]);
        jobs.shutdown().await;
    }
    let jobs = builder("memory://diagnosis-of-clocks", 60).start_all().await.expect("a start");
    assert_eq!(jobs.diagnose().await.expect("it answers"), []);
    jobs.shutdown().await;
}

#[tokio::test]
async fn ttl_that_is_too_short_for_the_latency_of_the_store_is_reported() {
    let redis = RedisServer::start_with(&["--appendonly", "yes"]);
    let slow = door::to(redis.port(), Duration::from_millis(300), door::unchanged, door::unchanged).await;
    let url = format!("redis://{slow}?response_timeout=10s");
    let jobs = builder(&url, 1).start_all().await.expect("a start");
    let findings = jobs.diagnose().await.expect("it answers");
    only(
        &findings,
        FindingKind::TooSlow,
        Severity::Warning,
        &["import can never run", "set a ttl of more than"],
    );
    jobs.shutdown().await;

    let jobs = builder(&url, 60).start_all().await.expect("a start");
    assert_eq!(jobs.diagnose().await.expect("it answers"), []);
    jobs.shutdown().await;
}

#[tokio::test]
async fn a_diagnosis_that_takes_too_long_neither_fails_nor_delays_a_start() {
    let redis = RedisServer::start();
    // The connection stands still: its later requests wait, too.
    let hang = |request: Vec<u8>| {
        let text = String::from_utf8_lossy(&request).into_owned();
        let blocks = "*3\r\n$5\r\nBLPOP\r\n$4\r\nnone\r\n$2\r\n20\r\n";
        text.replace("*1\r\n$4\r\nINFO\r\n", blocks).into_bytes()
    };
    let address = door::to(redis.port(), Duration::ZERO, hang, door::unchanged).await;
    let begun = Instant::now();
    let jobs =
        builder(&format!("redis://{address}?response_timeout=30s"), 60).start_all().await.expect("a start");
    assert!(begun.elapsed() < Duration::from_secs(9), "{:?}", begun.elapsed());
    let findings = jobs.diagnose().await.expect("it answers");
    only(&findings, FindingKind::NotChecked, Severity::Note, &["no answer within"]);
    jobs.shutdown().await;
}

/// The findings about a job with this schedule and ttl, on a store about which there are none.
async fn found_about(every: &str, ttl_secs: u64, keep_alive: bool) -> Vec<jobs::diagnosis::Finding> {
    let job = jobs::Job::builder("import").every(every).ttl(Duration::from_secs(ttl_secs));
    found_about_job(job.keep_alive(keep_alive)).await
}

async fn found_about_job(job: jobs::JobBuilder) -> Vec<jobs::diagnosis::Finding> {
    let job = job.run(async |_| ()).build().unwrap();
    let builder = jobs::builder().without_annotated().url("memory://long-ttl").job(job);
    let jobs = builder.start_all().await.unwrap();
    let findings = jobs.diagnose().await.unwrap();
    jobs.shutdown().await;
    findings
}

#[tokio::test]
async fn ttl_much_longer_than_the_interval_is_a_warning() {
    let findings = found_about("1s", 600, true).await;
    only(&findings, FindingKind::LongTtl, Severity::Warning, &["the ttl of import", "set a shorter ttl"]);
    for (every, ttl) in [("1s", 60), ("1h", 600), ("* * * * *", 3600)] {
        assert_eq!(found_about(every, ttl, true).await, [], "{every}, {ttl} s");
    }
    assert_eq!(
        found_about("1s", 600, false).await,
        [],
        "without keep-alive the ttl must be as long as a run"
    );
}

/// The lease of a run that crashed lasts until the next tick, which then starts instead.
#[tokio::test]
async fn retry_after_a_crash_with_a_ttl_as_long_as_the_interval_is_a_warning() {
    let found = async |ttl: &str| {
        let job = jobs::Job::builder("import").every("1m").ttl(ttl);
        found_about_job(job.retry_on_crash(1)).await
    };
    only(
        &found("60s").await,
        FindingKind::LongTtl,
        Severity::Warning,
        &["takes nothing over", "set a shorter ttl"],
    );
    assert_eq!(found("50s").await, []);
}
