use super::*;
use crate::Health;
use crate::events::{EventKind, SkipReason};
use crate::schedule::OnLost;

#[derive(Debug)]
struct Unspeakable;

impl std::fmt::Display for Unspeakable {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        panic!("this error cannot be printed")
    }
}

impl std::error::Error for Unspeakable {}

#[tokio::test(start_paused = true)]
async fn error_that_panics_when_displayed_affects_only_its_own_run() {
    let clock = TestClock::new();
    let link = Link::new(clock.clone());
    let server = server("server", &link, clock);
    schedule(&server, job("60s", 30).run(|_| async { Err::<(), _>(Unspeakable) }).build().unwrap());
    seconds(125).await;
    assert!(!server.failed.is_raised());
    assert_eq!(outcomes(&link).await, [RunOutcome::Panicked, RunOutcome::Panicked]);
}

#[tokio::test(start_paused = true)]
async fn lease_won_again_with_little_time_left_is_extended_at_once() {
    let clock = TestClock::new();
    let link = Link::new(clock.clone());
    let server = server("server", &link, clock);
    schedule(&server, job("1h", 60).run(|_| async { seconds(30).await }).build().unwrap());
    seconds(3599).await;
    link.replies_lost.store(true, Ordering::SeqCst);
    seconds(46).await;
    link.replies_lost.store(false, Ordering::SeqCst);
    seconds(120).await;
    assert_eq!(outcomes(&link).await, [RunOutcome::Succeeded]);
}

#[tokio::test(start_paused = true)]
async fn run_that_continues_without_its_lease_is_cancelled_at_its_timeout() {
    let clock = TestClock::new();
    let link = Link::new(clock.clone());
    let server = server("server", &link, clock);
    let endless = job("1h", 30).on_lost(OnLost::Continue).timeout(Duration::from_secs(100));
    schedule(&server, endless.run(|_| std::future::pending::<()>()).build().unwrap());
    seconds(3601).await;
    link.cut.store(true, Ordering::SeqCst);
    seconds(60).await;
    link.cut.store(false, Ordering::SeqCst);
    seconds(60).await;
    assert_eq!(outcomes(&link).await, [RunOutcome::TimedOut]);
}

#[tokio::test(start_paused = true)]
async fn run_that_continues_without_its_lease_is_cancelled_by_a_shutdown() {
    let clock = TestClock::new();
    let link = Link::new(clock.clone());
    let server = server("server", &link, clock);
    let endless = job("1h", 30).keep_alive(false).on_lost(OnLost::Continue);
    schedule(&server, endless.run(|_| std::future::pending::<()>()).build().unwrap());
    seconds(3660).await;
    server.shut_down();
    let finished = crate::server::thread::finish(&server, Duration::from_secs(25));
    tokio::time::timeout(Duration::from_secs(30), finished).await.expect("the run is cancelled");
    assert_eq!(outcomes(&link).await, [RunOutcome::Cancelled]);
}

#[tokio::test(start_paused = true)]
async fn suspend_between_an_extension_and_its_reply_is_noticed() {
    let (clock, store_clock) = (TestClock::new(), TestClock::new());
    let link = Link::new(store_clock.clone());
    let server = server("server", &link, clock.clone());
    let steps = Arc::new(Mutex::new(Vec::new()));
    let (noted, shown) = (steps.clone(), store_clock.clone());
    let stepping = job("1h", 30)
        .run(move |_| {
            let (noted, shown) = (noted.clone(), shown.clone());
            async move {
                while noted.lock().unwrap().len() < 100_000 {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    noted.lock().unwrap().push(shown.now());
                }
            }
        })
        .build()
        .unwrap();
    schedule(&server, stepping);
    seconds(3602).await;
    *link.on_extension.lock().unwrap() = Some(Box::new(move || {
        clock.step_secs(300);
        store_clock.step_secs(300);
    }));
    seconds(30).await;
    let woken = NOON + Duration::from_secs(3600 + 300);
    let after = steps.lock().unwrap().iter().filter(|step| **step > woken).count();
    assert_eq!(after, 0, "steps under a lease that had expired");
    assert_eq!(outcomes(&link).await, [RunOutcome::LeaseLost]);
}

#[tokio::test(start_paused = true)]
async fn server_whose_application_runtime_has_ended_leaves_ticks_to_other_servers() {
    let clock = TestClock::new();
    let link = Link::new(clock.clone());
    let gone =
        std::thread::spawn(|| tokio::runtime::Runtime::new().unwrap().handle().clone()).join().unwrap();
    let app = Spawner::Runtime(gone);
    let dead = Arc::new(Server::new(ServerConfig { app, ..setup("dead", &link, clock.clone()) }));
    let runs = Runs::default();
    schedule(&dead, runs.noting(job("60s", 30)));
    seconds(61).await;
    assert!(dead.failed.is_raised(), "it reports that it has failed");
    dead.shut_down(); // as the host does then
    schedule(&server("healthy", &link, clock), runs.noting(job("60s", 30)));
    seconds(300).await;
    assert_eq!(runs.ticks(), [120, 180, 240, 300, 360]);
}

#[tokio::test(start_paused = true)]
async fn stopping_server_does_not_claim_when_a_slot_becomes_free() {
    let clock = TestClock::new();
    let link = Link::new(clock.clone());
    let busy = server_with("busy", &link, clock, Some(1));
    let long = Job::builder("long").every("60s").run(|_| async { seconds(50).await }).build().unwrap();
    let waiting = job("60s", 60).jitter(Duration::from_secs(2)).grace(Duration::from_secs(59));
    schedule_all(&busy, vec![long, Runs::default().noting(waiting)]);
    seconds(65).await;
    let before = link.claim_requests();
    busy.shut_down();
    crate::server::thread::finish(&busy, Duration::from_secs(100)).await;
    assert_eq!(link.claim_requests(), before);
}

#[tokio::test(start_paused = true)]
async fn claims_do_not_accumulate_while_the_store_is_unreachable() {
    let clock = TestClock::new();
    let link = Link::new(clock.clone());
    let server = server("server", &link, clock);
    let runs = Runs::default();
    schedule(&server, runs.noting(job("1s", 30).grace(Duration::from_secs(3600))));
    link.cut.store(true, Ordering::SeqCst);
    seconds(600).await;
    // The newest claim, and the releases of what earlier ones may have won.
    let asking = link.claim_requests();
    seconds(10).await;
    let asking = link.claim_requests() - asking;
    assert!(asking <= 100, "{asking} claims in ten seconds of one job");
    assert!(server.tracked.len() <= 40, "{} tasks of one job", server.tracked.len());
    link.cut.store(false, Ordering::SeqCst);
    seconds(10).await;
    assert!(
        runs.ticks().len() >= 9 && server.tracked.len() <= 2,
        "{} still in progress",
        server.tracked.len()
    );
}

#[tokio::test(start_paused = true)]
async fn unreadable_key_does_not_take_slots_from_other_jobs() {
    let clock = TestClock::new();
    let link = Link::new(clock.clone());
    let server = server_with("server", &link, clock, Some(1));
    let runs = Runs::default();
    let damaged = Job::builder("damaged").every("60s").run(|_| async {}).build().unwrap();
    schedule_all(&server, vec![damaged, runs.noting(job("60s", 20))]);
    seconds(301).await;
    assert_eq!(runs.ticks(), [60, 120, 180, 240, 300]);
}

#[tokio::test(start_paused = true)]
async fn unreadable_key_is_reported_by_its_ticks_and_makes_the_server_unready() {
    let clock = TestClock::new();
    let link = Link::new(clock.clone());
    let server = server("server", &link, clock);
    let mut events = server.events.subscribe(server.time.now());
    let damaged = Job::builder("damaged").every("60s").run(|_| async {}).build().unwrap();
    schedule_all(&server, vec![damaged, Runs::default().noting(job("60s", 20))]);
    let (mut health, mut unreadable) = (0, 0);
    for _ in 0..600 {
        seconds(1).await;
        let health = server.health.get();
        assert!(
            matches!(&health, Health::StoreUnavailable { error, .. } if error.contains("damaged")),
            "{health:?}"
        );
    }
    while let Ok(Some(event)) = tokio::time::timeout(Duration::ZERO, events.next()).await {
        match event.kind {
            EventKind::StoreUnavailable { .. } | EventKind::StoreBack => health += 1,
            EventKind::Skipped { reason: SkipReason::StoreUnavailable(error), .. } => {
                assert!(event.key == "damaged" && error.contains("damaged"), "{}: {error}", event.key);
                unreadable += 1;
            }
            _ => {}
        }
    }
    assert_eq!((health, unreadable), (0, 10));
}

#[tokio::test(start_paused = true)]
async fn server_does_not_claim_a_job_whose_blocked_run_loses_its_lease_after_its_timeout() {
    let clock = TestClock::new();
    let link = Link::new(clock.clone());
    // One thread for the run, and one on which the application still answers.
    let app = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let place = Spawner::Runtime(app.handle().clone());
    let server = Arc::new(Server::new(ServerConfig { app: place, ..setup("server", &link, clock) }));
    let (started, has_started) = std::sync::mpsc::channel();
    let (release, wait) = std::sync::mpsc::channel::<()>();
    let wait = Arc::new(Mutex::new(wait));
    let blocks = job("60s", 30)
        .timeout(Duration::from_secs(10))
        .run(move |_| {
            let (started, wait) = (started.clone(), wait.clone());
            async move {
                started.send(()).unwrap();
                let _until_it_is_released = wait.lock().unwrap().recv();
            }
        })
        .build()
        .unwrap();
    schedule(&server, blocks);
    seconds(60).await;
    // While something blocks, the paused clock stands still, and the application's threads can answer.
    tokio::task::spawn_blocking(move || has_started.recv().unwrap()).await.unwrap();
    seconds(21).await;
    link.cut.store(true, Ordering::SeqCst);
    seconds(35).await;
    link.cut.store(false, Ordering::SeqCst);
    let before = link.claim_requests();
    for _ in 0..2 {
        seconds(4).await;
        tokio::task::spawn_blocking(|| std::thread::sleep(Duration::from_millis(200))).await.unwrap();
        seconds(56).await;
    }
    assert_eq!(link.claim_requests(), before, "it is past its timeout and its lease, but still in progress");
    drop(release);
    app.shutdown_background();
}

#[tokio::test(start_paused = true)]
async fn run_that_blocks_in_one_poll_for_longer_than_its_ttl_is_reported_once() {
    let clock = TestClock::new();
    let link = Link::new(clock.clone());
    let app = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let place = Spawner::Runtime(app.handle().clone());
    let server = Arc::new(Server::new(ServerConfig { app: place, ..setup("server", &link, clock) }));
    let mut events = server.events.subscribe(server.time.now());
    let (started, has_started) = std::sync::mpsc::channel();
    let (release, wait) = std::sync::mpsc::channel::<()>();
    let wait = Arc::new(Mutex::new(wait));
    let blocks = job("1h", 30)
        .run(move |_| {
            let (started, wait) = (started.clone(), wait.clone());
            async move {
                started.send(()).unwrap();
                let _until_it_is_released = wait.lock().unwrap().recv();
            }
        })
        .build()
        .unwrap();
    schedule(&server, blocks);
    seconds(3600).await;
    tokio::task::spawn_blocking(move || has_started.recv().unwrap()).await.unwrap();
    let mut reported = async |secs| {
        let until = Instant::now() + Duration::from_secs(secs);
        let mut reported = 0;
        while let Ok(Some(event)) = tokio::time::timeout_at(until, events.next()).await {
            reported += usize::from(matches!(event.kind, EventKind::RunBlocked(_)));
        }
        reported
    };
    assert_eq!(reported(25).await, 0, "not before its ttl is over");
    assert_eq!(reported(40).await, 1);
    assert_eq!(reported(600).await, 0, "and not again");
    assert!(link.history("job").await.current.is_some(), "it keeps its lease");
    drop(release);
    app.shutdown_background();
}
