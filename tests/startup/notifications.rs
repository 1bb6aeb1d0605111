//! Operators' actions reach the server that they concern at once, on real stores that notify.

use std::time::{Duration, Instant};

use jobs::{CancelOutcome, Job, Jobs, RunNow};
use support::folder::TempFolder;
use support::postgres_server::PostgresServer;
use support::redis_server::RedisServer;

/// Without notifications a run is requested with the next heartbeat, within 20 s, and cancelled with the next extension, after
/// 20 s.
const AT_ONCE: Duration = Duration::from_secs(3);

/// A server whose job would run for minutes, and a tool of an operator.
async fn server_and_tool(url: &str) -> (Jobs, Jobs) {
    let minutes = |_| tokio::time::sleep(Duration::from_secs(300));
    let job = Job::builder("report").every("1d").ttl("60s").run(minutes).build().unwrap();
    let builder = || jobs::builder().without_annotated().namespace("notified").url(url);
    let server = builder().job(job).start_all().await.unwrap();
    let tool = builder().without_jobs().start_all().await.unwrap();
    while tool.servers().await.unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // It subscribes after its first heartbeat.
    tokio::time::sleep(Duration::from_millis(500)).await;
    (server, tool)
}

async fn wait_for_the_run(tool: &Jobs) -> Duration {
    let begun = Instant::now();
    while tool.history("report").await.unwrap().current.is_none() {
        assert!(begun.elapsed() < Duration::from_secs(30), "it does not begin");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    begun.elapsed()
}

async fn request_and_cancel_at_once(url: &str) {
    let (server, tool) = server_and_tool(url).await;
    let asking = tool.clone();
    let asked = tokio::spawn(async move { asking.run_now("report").await });
    let began_after = wait_for_the_run(&tool).await;
    let cancelling = Instant::now();
    let cancelled = tool.by("anna").cancel("report").await.unwrap();
    println!("{url}: began after {began_after:?}, cancelled after {:?}", cancelling.elapsed());
    assert!(began_after < AT_ONCE, "{began_after:?}");
    assert!(cancelling.elapsed() < AT_ONCE, "{:?}", cancelling.elapsed());
    let CancelOutcome::Ended(run) = cancelled else { panic!("{cancelled:?}") };
    assert_eq!(run.stopped_by.as_deref(), Some("anna"));
    assert_eq!(asked.await.unwrap().unwrap(), RunNow::Ran(run));
    tool.shutdown().await;
    server.shutdown().await;
}

#[tokio::test]
async fn requested_run_begins_and_is_cancelled_at_once_on_redis() {
    request_and_cancel_at_once(&RedisServer::start().url()).await;
}

#[tokio::test]
async fn requested_run_begins_and_is_cancelled_at_once_on_postgres() {
    request_and_cancel_at_once(&PostgresServer::shared().url()).await;
}

/// The control: a store that does not notify.
#[tokio::test]
async fn run_on_a_store_without_notifications_is_not_cancelled_at_once() {
    let folder = TempFolder::new();
    let (server, tool) = server_and_tool(&format!("file://{}", folder.path().display())).await;
    let running = server.clone();
    let ran = tokio::spawn(async move { running.run_now("report").await });
    wait_for_the_run(&tool).await;
    let cancelled = tool.cancel("report").within(AT_ONCE).await.unwrap();
    assert!(matches!(cancelled, CancelOutcome::StillRunning(_)), "{cancelled:?}");
    ran.abort();
    tool.shutdown().await;
}
