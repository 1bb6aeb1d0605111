use super::*;

#[tokio::test(start_paused = true)]
async fn run_longer_than_its_ttl_keeps_its_lease() {
    let clock = TestClock::new();
    let link = Link::new(clock.clone());
    let server = server("server", &link, clock);
    schedule(&server, job("1h", 6).run(|_| async { seconds(600).await }).build().unwrap());
    seconds(3600 + 300).await;
    assert!(link.extensions.load(Ordering::SeqCst) >= 140, "every third of the ttl");
    seconds(301).await;
    assert_eq!(outcomes(&link).await, [RunOutcome::Succeeded]);
}

#[tokio::test(start_paused = true)]
async fn run_whose_lease_cannot_be_extended_is_cancelled_before_the_lease_expires() {
    let clock = TestClock::new();
    let link = Link::new(clock.clone());
    let server = server("server", &link, clock.clone());
    let (forever, cancelled_at) = endless(30, &clock);
    schedule(&server, forever);
    seconds(3601).await;
    link.cut.store(true, Ordering::SeqCst);
    seconds(60).await;
    let notified = cancelled_at.lock().unwrap().expect("the run was notified");
    let expiry = NOON + Duration::from_secs(3600 + 30);
    assert!(notified < expiry, "notified at {notified}, and the lease lasts until {expiry}");
    assert!(notified > expiry - Duration::from_secs(5), "not before it had to be: {notified}");
    link.cut.store(false, Ordering::SeqCst);
    seconds(10).await;
    assert_eq!(outcomes(&link).await, [RunOutcome::LeaseLost]);
}

#[tokio::test(start_paused = true)]
async fn run_keeps_its_lease_through_a_short_outage() {
    let clock = TestClock::new();
    let link = Link::new(clock.clone());
    let server = server("server", &link, clock);
    schedule(&server, job("1h", 30).run(|_| async { seconds(120).await }).build().unwrap());
    seconds(3605).await;
    link.cut.store(true, Ordering::SeqCst);
    seconds(18).await;
    link.cut.store(false, Ordering::SeqCst);
    seconds(120).await;
    assert_eq!(outcomes(&link).await, [RunOutcome::Succeeded]);
}

#[tokio::test(start_paused = true)]
async fn run_without_keep_alive_ends_with_its_first_ttl() {
    let clock = TestClock::new();
    let link = Link::new(clock.clone());
    let server = server("server", &link, clock);
    schedule(&server, job("1h", 30).keep_alive(false).run(|_| async { seconds(120).await }).build().unwrap());
    seconds(3700).await;
    assert_eq!(link.extensions.load(Ordering::SeqCst), 0);
    assert_eq!(outcomes(&link).await, [RunOutcome::LeaseLost]);
}

#[tokio::test(start_paused = true)]
async fn run_with_on_lost_continue_is_notified_and_continues() {
    let clock = TestClock::new();
    let link = Link::new(clock.clone());
    let server = server("server", &link, clock);
    let notified = Arc::new(AtomicBool::new(false));
    let was_notified = notified.clone();
    let stubborn = job("1h", 30)
        .keep_alive(false)
        .on_lost(crate::schedule::OnLost::Continue)
        .run(move |run: Run| {
            let was_notified = was_notified.clone();
            async move {
                seconds(60).await;
                was_notified.store(run.is_cancelled(), Ordering::SeqCst);
            }
        })
        .build()
        .unwrap();
    schedule(&server, stubborn);
    seconds(3700).await;
    assert!(notified.load(Ordering::SeqCst));
    assert_eq!(outcomes(&link).await, [RunOutcome::Succeeded]);
}

#[tokio::test(start_paused = true)]
async fn run_waits_after_a_suspend_until_the_store_has_confirmed_its_lease() {
    let (clock, store_clock) = (TestClock::new(), TestClock::new());
    let link = Link::new(store_clock.clone());
    let server = server("server", &link, clock.clone());
    let polls = Arc::new(AtomicUsize::new(0));
    let counted = polls.clone();
    let busy = job("1h", 30)
        .run(move |_| {
            let counted = counted.clone();
            async move {
                while counted.load(Ordering::SeqCst) < 10_000 {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    counted.fetch_add(1, Ordering::SeqCst);
                }
            }
        })
        .build()
        .unwrap();
    schedule(&server, busy);
    seconds(3602).await;
    // The machine is suspended for longer than its lease: all wall clocks advance, its steady clock does not.
    clock.step_secs(300);
    store_clock.step_secs(300);
    let before = polls.load(Ordering::SeqCst);
    seconds(5).await;
    assert_eq!(polls.load(Ordering::SeqCst), before, "not one step further under a lease that is over");
    assert_eq!(outcomes(&link).await, [RunOutcome::LeaseLost]);
}

#[tokio::test(start_paused = true)]
async fn run_keeps_its_lease_when_the_wall_clock_is_set_forward() {
    let (clock, store_clock) = (TestClock::new(), TestClock::new());
    let link = Link::new(store_clock);
    let server = server("server", &link, clock.clone());
    schedule(&server, job("1h", 30).run(|_| async { seconds(120).await }).build().unwrap());
    seconds(3602).await;
    clock.step_secs(300);
    seconds(130).await;
    assert_eq!(outcomes(&link).await, [RunOutcome::Succeeded]);
}

#[tokio::test(start_paused = true)]
async fn panic_is_recorded_and_the_lease_released() {
    let clock = TestClock::new();
    let link = Link::new(clock.clone());
    let server = server("server", &link, clock);
    schedule(
        &server,
        job("60s", 30)
            .run(|run| async move { assert!(run.key().is_empty(), "out of cheese") })
            .build()
            .unwrap(),
    );
    seconds(125).await;
    let runs = link.history("job").await.runs;
    assert_eq!(runs.len(), 2, "the next tick found the key free");
    assert_eq!(runs[0].outcome, RunOutcome::Panicked);
    assert_eq!(runs[0].error.as_deref(), Some("out of cheese"));
}

#[tokio::test(start_paused = true)]
async fn panic_before_the_first_await_is_recorded() {
    let clock = TestClock::new();
    let link = Link::new(clock.clone());
    let server = server("server", &link, clock);
    let panics = |_: Run| -> std::future::Ready<()> { panic!("no future at all") };
    schedule(&server, job("60s", 30).run(panics).build().unwrap());
    seconds(65).await;
    assert_eq!(outcomes(&link).await, [RunOutcome::Panicked]);
}

#[tokio::test(start_paused = true)]
async fn long_error_is_recorded_truncated() {
    let clock = TestClock::new();
    let link = Link::new(clock.clone());
    let server = server("server", &link, clock);
    schedule(&server, job("60s", 30).run(|_| async { Err::<(), _>("x".repeat(5000)) }).build().unwrap());
    seconds(65).await;
    let runs = link.history("job").await.runs;
    assert_eq!(runs[0].outcome, RunOutcome::Failed);
    assert_eq!(runs[0].error.as_ref().unwrap().chars().count(), 2001, "2,000 characters and a dot-dot-dot");
}

#[tokio::test(start_paused = true)]
async fn timeout_cancels_the_run_and_releases_its_lease() {
    let clock = TestClock::new();
    let link = Link::new(clock.clone());
    let server = server("server", &link, clock);
    let endless = job("60s", 30)
        .timeout(Duration::from_secs(10))
        .run(|_| std::future::pending::<()>())
        .build()
        .unwrap();
    schedule(&server, endless);
    seconds(75).await;
    assert_eq!(outcomes(&link).await, [RunOutcome::TimedOut]);
}

#[tokio::test(start_paused = true)]
async fn shutdown_cancels_runs_that_do_not_end_within_the_grace() {
    let clock = TestClock::new();
    let link = Link::new(clock.clone());
    let server = server("server", &link, clock);
    let polite = Arc::new(AtomicBool::new(false));
    let noticed = polite.clone();
    let endless = job("60s", 30)
        .run(move |run: Run| {
            let noticed = noticed.clone();
            async move {
                run.stopping().await;
                noticed.store(true, Ordering::SeqCst);
                std::future::pending::<()>().await;
            }
        })
        .build()
        .unwrap();
    schedule(&server, endless);
    seconds(65).await;
    server.shut_down();
    let begun = Instant::now();
    crate::server::thread::finish(&server, Duration::from_secs(25)).await;
    assert!(polite.load(Ordering::SeqCst), "the run was notified at once that the server stops");
    assert_eq!(begun.elapsed().as_secs(), 25);
    assert_eq!(outcomes(&link).await, [RunOutcome::Cancelled]);
}

/// The scheduler and the application have separate threads: the job can continue first.
#[tokio::test(start_paused = true)]
async fn run_that_finds_its_own_lease_expired_is_cancelled() {
    let clock = TestClock::new();
    let link = Link::new(clock.clone());
    let process = SimulatedProcess::on_current_runtime();
    let host = Spawner::Simulated(process.clone());
    let server = Arc::new(Server::new(ServerConfig { host, ..setup("server", &link, clock) }));
    let notified = Arc::new(AtomicBool::new(false));
    let learns = notified.clone();
    let busy = job("1h", 30)
        .run(move |run: Run| {
            let learns = learns.clone();
            tokio::spawn(async move {
                run.cancelled().await;
                learns.store(true, Ordering::SeqCst);
            });
            async {
                while std::future::ready(true).await {
                    seconds(1).await;
                }
            }
        })
        .build()
        .unwrap();
    schedule(&server, busy);
    seconds(3605).await;
    process.stop();
    seconds(60).await;
    assert!(!notified.load(Ordering::SeqCst), "its server is stopped and cannot notify it");
    process.resume();
    seconds(1).await;
    assert_eq!(outcomes(&link).await, [RunOutcome::LeaseLost]);
    assert!(notified.load(Ordering::SeqCst));
}

/// When the store's clock showed that a run was cancelled.
type CancelledAt = Arc<Mutex<Option<Timestamp>>>;

/// A run that never ends, and notes when it is cancelled.
fn endless(ttl_secs: u64, store_clock: &Arc<TestClock>) -> (Job, CancelledAt) {
    let notified = CancelledAt::default();
    let (when, clock) = (notified.clone(), store_clock.clone());
    let job = job("1h", ttl_secs)
        .run(move |run: Run| {
            let (when, clock) = (when.clone(), clock.clone());
            tokio::spawn(async move {
                run.cancelled().await;
                when.lock().unwrap().replace(clock.now());
            });
            std::future::pending::<()>()
        })
        .build()
        .unwrap();
    (job, notified)
}

#[tokio::test(start_paused = true)]
async fn run_after_a_suspend_shorter_than_its_ttl_ends_before_its_lease() {
    let (clock, store_clock) = (TestClock::new(), TestClock::new());
    let link = Link::new(store_clock.clone());
    let server = server("server", &link, clock.clone());
    let (job, notified) = endless(60, &store_clock);
    schedule(&server, job);
    seconds(3605).await;
    clock.step_secs(50);
    store_clock.step_secs(50);
    seconds(2).await;
    link.cut.store(true, Ordering::SeqCst);
    let until = link.history("job").await.current.expect("a run").until;
    seconds(120).await;
    let notified = notified.lock().unwrap().expect("the run was cancelled");
    assert!(notified < until, "cancelled at {notified}, and the lease lasted until {until}");
}

#[tokio::test(start_paused = true)]
async fn run_whose_machine_was_paused_with_both_clocks_ends_before_its_lease() {
    let (clock, store_clock) = (TestClock::new(), TestClock::new());
    let link = Link::new(store_clock.clone());
    let server = server("server", &link, clock.clone());
    let (job, notified) = endless(60, &store_clock);
    schedule(&server, job);
    seconds(3605).await;
    store_clock.step_secs(40);
    server.requests(Duration::from_secs(1)).ping().await.unwrap();
    seconds(2).await;
    link.cut.store(true, Ordering::SeqCst);
    let until = link.history("job").await.current.expect("a run").until;
    seconds(120).await;
    let notified = notified.lock().unwrap().expect("the run was cancelled");
    assert!(notified < until, "cancelled at {notified}, and the lease lasted until {until}");
}

#[tokio::test(start_paused = true)]
async fn repeatedly_refused_extension_ends_before_its_lease() {
    let clock = TestClock::new();
    let link = Link { latency: Duration::from_secs(3), ..Link::new(clock.clone()) };
    let server = server("server", &link, clock.clone());
    let (job, notified) = endless(30, &clock);
    schedule(&server, job);
    seconds(3608).await;
    let until = link.history("job").await.current.expect("a run").until;
    link.contended.store(true, Ordering::SeqCst);
    seconds(120).await;
    let notified = notified.lock().unwrap().expect("the run was cancelled");
    assert!(notified < until, "cancelled at {notified}, and the lease lasted until {until}");
}

#[tokio::test(start_paused = true)]
async fn claim_won_without_an_answer_is_released_when_the_clock_goes_back() {
    let clock = TestClock::new();
    let link = Link::new(clock.clone());
    let server = server("server", &link, clock.clone());
    let runs = Runs::default();
    schedule(&server, runs.noting(job("1h", 600)));
    link.swap_replies_lost.store(true, Ordering::SeqCst);
    seconds(3601).await;
    clock.step_secs(-100);
    link.swap_replies_lost.store(false, Ordering::SeqCst);
    seconds(30).await;
    assert_eq!(outcomes(&link).await, [RunOutcome::NotStarted], "and not before a ttl is over");
    assert_eq!(runs.ticks(), [0_u64; 0]);
}
