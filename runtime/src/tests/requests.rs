//! The number of requests to the store.

use super::*;
use crate::schedule::Overlap;
use crate::server::heartbeat;

const TTL: u64 = 30;

/// The number of claims of a job, in the 20 minutes after its first tick, by the server that does not run it.
async fn claims_while_another_server_runs(waiting: JobBuilder, from_secs: u64) -> usize {
    let clock = TestClock::new();
    let link = Link::new(clock.clone());
    let (one, other) = (server("one", &link, clock.clone()), server("other", &link, clock));
    let long = |job: JobBuilder| job.run(|_| seconds(7200)).build().unwrap();
    schedule(&one, long(waiting.clone()));
    tokio::task::yield_now().await;
    schedule(&other, long(waiting));
    seconds(from_secs + 1).await;
    let runner = link.history("job").await.current.expect("it runs").server;
    let asked = || link.claims.lock().unwrap().iter().filter(|claim| *claim.server != *runner).count();
    let before = asked();
    seconds(1200).await;
    asked() - before
}

#[tokio::test(start_paused = true)]
async fn server_that_waits_to_take_over_a_tick_claims_about_once_per_ttl() {
    let asked = claims_while_another_server_runs(job("24h", TTL).retry_on_crash(1), 12 * 3600).await;
    assert!((40..=60).contains(&asked), "{asked} times in 40 ttls");
}

#[tokio::test(start_paused = true)]
async fn server_with_a_queued_tick_claims_about_once_per_ttl() {
    let queued = job("1h", TTL).overlap(Overlap::Queue).grace(Duration::from_secs(7200));
    let asked = claims_while_another_server_runs(queued, 7200).await;
    assert!((40..=60).contains(&asked), "{asked} times in 40 ttls");
}

#[tokio::test(start_paused = true)]
async fn server_without_a_waiting_tick_does_not_claim() {
    assert_eq!(claims_while_another_server_runs(job("24h", TTL), 12 * 3600).await, 0);
}

#[tokio::test(start_paused = true)]
async fn server_sends_three_heartbeats_a_minute() {
    let clock = TestClock::new();
    let link = Link::new(clock.clone());
    let jobs = vec![job("24h", TTL).run(|_| std::future::ready(())).build().unwrap()];
    let server = Server::new(ServerConfig { jobs, ..setup("server", &link, clock) });
    tokio::spawn(heartbeat::announce(Arc::new(server)));
    tokio::task::yield_now().await;
    assert_eq!(link.announcements.load(Ordering::SeqCst), 1, "at its start");
    seconds(599).await;
    assert_eq!(link.announcements.load(Ordering::SeqCst), 30);
}

#[tokio::test(start_paused = true)]
async fn server_without_jobs_sends_no_heartbeat() {
    let clock = TestClock::new();
    let link = Link::new(clock.clone());
    tokio::spawn(heartbeat::announce(server("tool", &link, clock)));
    seconds(60).await;
    assert_eq!(link.announcements.load(Ordering::SeqCst), 0);
}
