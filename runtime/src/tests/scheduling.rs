use super::*;
use crate::schedule::Overlap;
use crate::server::heartbeat;

#[tokio::test(start_paused = true)]
async fn ten_servers_with_wrong_clocks_run_each_tick_once() {
    let clock = TestClock::new();
    let link = Link::new(clock.clone());
    let runs = Runs::default();
    for n in 0..10 {
        let server = server(&format!("server-{n}"), &link, TestClock::skewed_by_secs(n * 7 - 30));
        schedule(&server, runs.noting(job("10s", 5)));
    }
    seconds(1000).await;
    let mut ticks = runs.ticks();
    ticks.retain(|tick| *tick > 100);
    assert_eq!(ticks, (11..100).map(|n| n * 10).collect::<Vec<_>>(), "one run of every tick, in order");
}

#[tokio::test(start_paused = true)]
async fn fast_clock_neither_starts_runs_early_nor_skips_later_ticks() {
    let link = Link::new(TestClock::new());
    let fast = server("fast", &link, TestClock::skewed_by_secs(3600));
    let runs = Runs::default();
    schedule(&fast, runs.noting(job("60s", 30)));
    // Its first claim comes an hour early, and the answer corrects its clock.
    seconds(601).await;
    assert_eq!(runs.ticks(), [60, 120, 180, 240, 300, 360, 420, 480, 540, 600]);
}

#[tokio::test(start_paused = true)]
async fn slow_clock_is_corrected_by_the_stores_first_answer() {
    let link = Link::new(TestClock::new());
    let slow = server("slow", &link, TestClock::skewed_by_secs(-3600));
    slow.requests(Duration::from_secs(1)).ping().await.unwrap();
    let runs = Runs::default();
    schedule(&slow, runs.noting(job("60s", 30)));
    seconds(181).await;
    assert_eq!(runs.ticks(), [60, 120, 180]);
}

#[tokio::test(start_paused = true)]
async fn only_the_newest_tick_is_claimed_after_a_suspend() {
    // A suspended machine: its wall clock, which is also the store's, moves on; its steady clock stands
    // still.
    let clock = TestClock::new();
    let link = Link::new(clock.clone());
    let server = server("sleeper", &link, clock.clone());
    tokio::spawn(watch_clock(server.clone()));
    let runs = Runs::default();
    schedule(&server, runs.noting(job("60s", 30)));
    seconds(61).await;
    clock.step_secs(3600);
    seconds(10).await;
    assert_eq!(runs.ticks(), [60, 3660], "the sixty ticks between are not caught up on");
}

#[tokio::test(start_paused = true)]
async fn store_clock_that_steps_back_repeats_no_tick_and_is_reported() {
    let clock = TestClock::new();
    let link = Link::new(clock.clone());
    let server = server("server", &link, clock.clone());
    tokio::spawn(watch_clock(server.clone()));
    let runs = Runs::default();
    schedule(&server, runs.noting(job("60s", 30)));
    seconds(301).await;
    clock.step_secs(-200);
    seconds(400).await;
    assert_eq!(
        runs.ticks(),
        [60, 120, 180, 240, 300, 360, 420, 480],
        "each tick once, going on after the mark"
    );
}

#[tokio::test(start_paused = true)]
async fn failed_claim_is_repeated_with_the_same_token_within_the_grace() {
    let clock = TestClock::new();
    let link = Link::new(clock.clone());
    let server = server("server", &link, clock);
    let runs = Runs::default();
    schedule(&server, runs.noting(job("60s", 30)));
    seconds(1).await;
    link.claims.lock().unwrap().clear();
    // Looks are answered, so that each attempt gets as far as its swap, which shows its token.
    link.swaps_cut.store(true, Ordering::SeqCst);
    seconds(69).await;
    assert_eq!(runs.ticks(), [] as [u64; 0]);
    link.swaps_cut.store(false, Ordering::SeqCst);
    seconds(10).await;
    assert_eq!(runs.ticks(), [60], "two seconds of outage at the wrong moment do not cost the tick");
    let tokens = link.tokens();
    assert!(tokens.len() > 3, "it kept asking");
    assert!(tokens.iter().all(|token| *token == tokens[0]), "as one claim");
}

#[tokio::test(start_paused = true)]
async fn claim_that_cannot_reach_the_store_is_repeated_within_the_grace() {
    let clock = TestClock::new();
    let link = Link::new(clock.clone());
    let server = server("server", &link, clock);
    let runs = Runs::default();
    schedule(&server, runs.noting(job("60s", 30)));
    seconds(1).await;
    link.cut.store(true, Ordering::SeqCst);
    let before = link.claim_requests();
    seconds(69).await;
    assert!(link.claim_requests() > before + 3, "it kept asking");
    link.cut.store(false, Ordering::SeqCst);
    seconds(10).await;
    assert_eq!(runs.ticks(), [60]);
}

#[tokio::test(start_paused = true)]
async fn store_unreachable_past_the_grace_skips_the_tick_and_leaves_no_lock() {
    let clock = TestClock::new();
    let link = Link::new(clock.clone());
    let server = server("server", &link, clock);
    let runs = Runs::default();
    schedule(&server, runs.noting(job("60s", 20)));
    // Swaps arrive, their replies do not: the claim wins, and its server does not receive the answer.
    link.swap_replies_lost.store(true, Ordering::SeqCst);
    seconds(85).await;
    link.swap_replies_lost.store(false, Ordering::SeqCst);
    seconds(50).await;
    assert_eq!(runs.ticks(), [120], "the tick whose answer was lost is never started late");
    assert_eq!(outcomes(&link).await, [RunOutcome::NotStarted, RunOutcome::Succeeded]);
}

#[tokio::test(start_paused = true)]
async fn claim_whose_reply_is_lost_starts_the_job_once() {
    let clock = TestClock::new();
    let link = Link::new(clock.clone());
    let server = server("server", &link, clock);
    let runs = Runs::default();
    schedule(&server, runs.noting(job("60s", 20)));
    seconds(59).await;
    link.replies_lost.store(true, Ordering::SeqCst);
    seconds(2).await;
    link.replies_lost.store(false, Ordering::SeqCst);
    seconds(10).await;
    assert_eq!(runs.ticks(), [60]);
    assert_eq!(outcomes(&link).await, [RunOutcome::Succeeded], "one lease, won again, recorded once");
}

#[tokio::test(start_paused = true)]
async fn busy_server_leaves_the_tick_to_another_server() {
    let clock = TestClock::new();
    let link = Link::new(clock.clone());
    let busy = server_with("busy", &link, clock.clone(), Some(1));
    let long = Job::builder("long").every("60s").run(|_| async { seconds(50).await }).build().unwrap();
    schedule(&busy, long);
    let runs = Runs::default();
    let slightly_later = job("60s", 30).jitter(Duration::from_secs(2));
    schedule(&busy, runs.noting(slightly_later.clone()));
    let idle = server("idle", &link, clock);
    schedule(&idle, runs.noting(slightly_later));
    seconds(119).await;
    let ran = runs.0.lock().unwrap().clone();
    assert_eq!(ran.len(), 1);
    assert_eq!(ran[0].0, "idle", "the busy server did not claim what it could not run");
}

#[tokio::test(start_paused = true)]
async fn tick_due_during_the_previous_run_is_recorded_as_skipped() {
    let clock = TestClock::new();
    let link = Link::new(clock.clone());
    let server = server("server", &link, clock);
    let runs = Runs::default();
    let noted = runs.clone();
    let slow = job("60s", 30)
        .run(move |run| {
            noted.note(&run);
            seconds(90)
        })
        .build()
        .unwrap();
    schedule(&server, slow);
    seconds(250).await;
    assert_eq!(runs.ticks(), [60, 180]);
    let skips = link.history("job").await.skips;
    let skipped: Vec<_> = skips.iter().rev().map(|skip| skip.tick.since(NOON).as_secs()).collect();
    assert_eq!(skipped, [120, 240]);
}

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
async fn heartbeat_that_failed_is_repeated_at_once_and_in_an_outage_as_often_as_usual() {
    let clock = TestClock::new();
    let link = Link::new(clock.clone());
    let jobs = vec![job("24h", TTL).run(|_| std::future::ready(())).build().unwrap()];
    let server = Server::new(ServerConfig { jobs, ..setup("server", &link, clock) });
    link.cut.store(true, Ordering::SeqCst);
    tokio::spawn(heartbeat::announce(Arc::new(server)));
    let sent = || link.announcements.swap(0, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_millis(60)).await;
    assert_eq!(sent(), 2);
    seconds(60).await;
    sent();
    seconds(600).await;
    let in_ten_minutes = sent();
    assert!((30..=48).contains(&in_ten_minutes), "{in_ten_minutes}");
    link.cut.store(false, Ordering::SeqCst);
    seconds(20).await;
    sent();
    seconds(600).await;
    assert_eq!(sent(), 30, "the outage is over");
}

#[tokio::test(start_paused = true)]
async fn server_without_jobs_sends_no_heartbeat() {
    let clock = TestClock::new();
    let link = Link::new(clock.clone());
    tokio::spawn(heartbeat::announce(server("tool", &link, clock)));
    seconds(60).await;
    assert_eq!(link.announcements.load(Ordering::SeqCst), 0);
}
