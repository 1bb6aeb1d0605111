//! Servers that terminate: first they start no further run, then they shut down.

use std::time::Duration;

use jobs::events::SkipReason;
use jobs::history::RunOutcome;
use jobs::schedule::Overlap;
use jobs::testing::Fleet;
use jobs::{CancellationToken, Closed, Health, Job, Jobs, RunNow};
use tokio::time::Instant;

use crate::common::{HOUR, Heard, Notes, job, outcomes, secs};

/// A second handle to a server of a fleet.
fn handle(fleet: &Fleet, number: usize) -> Jobs {
    Jobs::clone(fleet.server(number))
}

#[tokio::test(start_paused = true)]
async fn server_that_stopped_claiming_leaves_every_tick_to_the_other() {
    let notes = Notes::new();
    let fleet = Fleet::of(2).job(notes.lasting(job("60s", 30), 5)).start().await.unwrap();
    fleet.run_for(secs(30)).await;
    fleet.server(0).stop_claiming();
    fleet.server(0).stop_claiming();
    fleet.run_for(secs(600)).await;
    assert_eq!(notes.ticks(), (1..=10).map(|minute| 60 * minute).collect::<Vec<_>>());
    assert!(notes.starts().iter().all(|start| start.server == "server-1"));
}

#[tokio::test(start_paused = true)]
async fn run_in_progress_keeps_its_lease_when_the_server_stops_claiming() {
    let notes = Notes::new();
    let noted = notes.job(job("1h", 30), |run| async move {
        tokio::time::sleep(secs(600)).await;
        assert!(!run.is_stopping() && !run.is_cancelled());
    });
    let fleet = Fleet::of(1).job(noted).start().await.unwrap();
    fleet.run_for(secs(HOUR + 5)).await;
    fleet.server(0).stop_claiming();
    fleet.run_for(secs(300)).await;
    assert_eq!(fleet.history("job").await.current.expect("it runs").server, "server-0");
    fleet.run_for(secs(2 * HOUR)).await;
    assert_eq!(outcomes(&fleet).await, [RunOutcome::Succeeded], "and no other run");
}

#[tokio::test(start_paused = true)]
async fn retries_of_a_run_in_progress_continue_when_the_server_stops_claiming() {
    let notes = Notes::new();
    let plan = job("1h", 30).retries(2, secs(60));
    let noted = notes.job(plan, |run| async move { if run.retry() < 2 { Err("not yet") } else { Ok(()) } });
    let fleet = Fleet::of(1).job(noted).start().await.unwrap();
    fleet.run_for(secs(HOUR + 1)).await;
    fleet.server(0).stop_claiming();
    fleet.run_for(secs(HOUR)).await;
    assert_eq!(outcomes(&fleet).await, [RunOutcome::Succeeded]);
}

/// A claim that is on its way when the server stops claiming; the control lets it be.
async fn claim_under_way(stops: bool) -> (Notes, Vec<SkipReason>) {
    let notes = Notes::new();
    let fleet = Fleet::of(1).job(notes.lasting(job("1h", 30), 5)).start().await.unwrap();
    let heard = Heard::from(fleet.server(0));
    fleet.run_for(secs(HOUR - 1)).await;
    fleet.server(0).set_latency(Duration::from_millis(500));
    fleet.run_for(Duration::from_millis(1700)).await;
    if stops {
        fleet.server(0).stop_claiming();
    }
    fleet.run_for(secs(60)).await;
    assert!(fleet.history("job").await.current.is_none());
    (notes, heard.skips())
}

#[tokio::test(start_paused = true)]
async fn claim_that_is_won_after_the_server_stopped_claiming_starts_nothing() {
    let (notes, skips) = claim_under_way(true).await;
    assert_eq!((notes.ticks(), skips), (vec![], vec![SkipReason::Stopping]));
    let (notes, skips) = claim_under_way(false).await;
    assert_eq!((notes.ticks(), skips), (vec![HOUR], vec![]), "the control");
}

/// A run that was won, and that the application has not polled yet, when the server stops claiming.
async fn run_not_yet_begun(stops: bool) -> Notes {
    let notes = Notes::new();
    let fleet = Fleet::of(1).job(notes.lasting(job("1h", 30), 5)).start().await.unwrap();
    fleet.run_for(secs(HOUR - 1)).await;
    fleet.server(0).set_latency(Duration::from_millis(200));
    fleet.run_for(Duration::from_millis(1300)).await;
    fleet.server(0).block_application(true);
    fleet.run_for(secs(2)).await;
    assert!(fleet.history("job").await.current.is_some(), "it was won");
    if stops {
        fleet.server(0).stop_claiming();
    }
    fleet.server(0).block_application(false);
    fleet.run_for(secs(60)).await;
    assert!(fleet.history("job").await.current.is_none(), "it was released");
    notes
}

#[tokio::test(start_paused = true)]
async fn run_that_has_not_begun_when_the_server_stops_claiming_never_begins() {
    assert!(run_not_yet_begun(true).await.starts().is_empty());
    assert_eq!(run_not_yet_begun(false).await.ticks(), [HOUR], "the control");
}

/// A server crashes in its run; the other one would take the tick over.
async fn takeover(stops: bool) -> Vec<u32> {
    let notes = Notes::new();
    let fleet = Fleet::of(2).job(notes.lasting(job("1h", 30).retry_on_crash(1), 60)).start().await.unwrap();
    fleet.run_for(secs(HOUR + 5)).await;
    let runner = fleet.running("job").await.expect("it runs");
    runner.crash();
    if stops {
        fleet.servers().iter().for_each(|server| server.stop_claiming());
    }
    fleet.run_for(secs(300)).await;
    notes.attempts()
}

#[tokio::test(start_paused = true)]
async fn server_that_stopped_claiming_takes_nothing_over() {
    assert_eq!(takeover(true).await, [1]);
    assert_eq!(takeover(false).await, [1, 2], "the control");
}

#[tokio::test(start_paused = true)]
async fn queued_tick_does_not_start_on_a_server_that_stopped_claiming() {
    let notes = Notes::new();
    let plan = job("60s", 30).overlap(Overlap::Queue).grace(secs(600));
    let fleet = Fleet::of(1).job(notes.lasting(plan, 90)).start().await.unwrap();
    fleet.run_for(secs(130)).await;
    assert_eq!(notes.ticks(), [60], "the next one is queued");
    fleet.server(0).stop_claiming();
    fleet.run_for(secs(600)).await;
    assert_eq!(notes.ticks(), [60]);
}

#[tokio::test(start_paused = true)]
async fn manual_run_is_refused_on_a_server_that_stopped_claiming() {
    let notes = Notes::new();
    let fleet = Fleet::of(1).job(notes.lasting(job("1h", 30), 5)).start().await.unwrap();
    fleet.run_for(secs(1)).await;
    fleet.server(0).stop_claiming();
    let refused = fleet.server(0).run_now("job").await.expect_err("it starts nothing");
    assert!(refused.to_string().contains("shutting down"), "{refused}");
    assert!(notes.starts().is_empty());
}

#[tokio::test(start_paused = true)]
async fn manual_run_requested_elsewhere_is_left_to_a_server_that_still_claims() {
    for (stops, ran) in [(true, false), (false, true)] {
        let notes = Notes::new();
        let made = std::sync::atomic::AtomicUsize::new(0);
        let here = notes.lasting(job("24h", 30), 5);
        let elsewhere = || Job::builder("other").run(|_| async {}).build().unwrap();
        let jobs = move || match made.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
            0 => here(),
            _ => elsewhere(),
        };
        let fleet = Fleet::of(2).job(jobs).start().await.unwrap();
        fleet.run_for(secs(1)).await;
        if stops {
            fleet.server(0).stop_claiming();
        }
        let asked = fleet.server(1).run_now("job").await.unwrap();
        assert_eq!(matches!(asked, RunNow::Ran(_)), ran, "{asked:?}");
        assert_eq!(notes.starts().len(), usize::from(ran));
    }
}

#[tokio::test(start_paused = true)]
async fn locks_can_be_acquired_on_a_server_that_stopped_claiming() {
    let fleet = Fleet::of(1).job(Notes::new().lasting(job("1h", 30), 5)).start().await.unwrap();
    fleet.server(0).stop_claiming();
    fleet.server(0).lock("payment:7").acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn health_is_stopping_until_the_shutdown_is_complete() {
    let fleet = Fleet::of(1).job(Notes::new().lasting(job("1h", 30), 60)).start().await.unwrap();
    fleet.run_for(secs(HOUR + 5)).await;
    let jobs = handle(&fleet, 0);
    assert_eq!(jobs.health(), Health::Ready);
    jobs.stop_claiming();
    assert_eq!(jobs.health(), Health::Stopping);
    let stopping = tokio::spawn({
        let jobs = jobs.clone();
        async move { jobs.shutdown().await }
    });
    fleet.run_for(secs(5)).await;
    assert_eq!(jobs.health(), Health::Stopping, "the run may finish");
    stopping.await.unwrap();
    assert_eq!(jobs.health(), Health::Stopped);
}

#[tokio::test(start_paused = true)]
async fn shutdown_from_several_clones_returns_to_each_when_the_scheduler_has_ended() {
    let notes = Notes::new();
    let fleet = Fleet::of(1).job(notes.lasting(job("1h", 30), 15)).start().await.unwrap();
    fleet.run_for(secs(HOUR + 5)).await;
    let shut_down = |after: u64| {
        let jobs = handle(&fleet, 0);
        tokio::spawn(async move {
            tokio::time::sleep(secs(after)).await;
            jobs.shutdown().await;
            assert_eq!(jobs.health(), Health::Stopped);
            Instant::now()
        })
    };
    let callers = [shut_down(0), shut_down(0), shut_down(5)];
    let mut returned = Vec::new();
    for caller in callers {
        returned.push(caller.await.unwrap());
    }
    assert_eq!(outcomes(&fleet).await, [RunOutcome::Succeeded]);
    assert!(returned.windows(2).all(|pair| pair[0] == pair[1]), "{returned:?}");
    let again = Instant::now();
    fleet.server(0).stop_claiming();
    handle(&fleet, 0).shutdown().await;
    assert_eq!((again.elapsed(), handle(&fleet, 0).closed().await), (Duration::ZERO, Closed::ShutDown));
}

#[tokio::test(start_paused = true)]
async fn late_caller_of_shutdown_does_not_wait_longer_than_the_first() {
    let noted = Notes::new().job(job("1h", 30), |_| std::future::pending::<()>());
    let fleet = Fleet::of(1).job(noted).start().await.unwrap();
    fleet.run_for(secs(HOUR + 5)).await;
    fleet.server(0).block_application(true); // the run cannot be dropped
    let begun = Instant::now();
    handle(&fleet, 0).shutdown().await;
    let first = begun.elapsed();
    assert!((secs(25)..=secs(28)).contains(&first), "{first:?}");
    handle(&fleet, 0).shutdown().await;
    assert_eq!(begun.elapsed(), first);
}

#[tokio::test]
async fn cancelled_token_shuts_the_scheduler_down_and_lets_its_run_finish() {
    let (began, mut begins) = tokio::sync::mpsc::unbounded_channel();
    let work = Job::builder("job").run(move |run| {
        let began = began.clone();
        async move {
            began.send(()).unwrap();
            run.stopping().await;
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    });
    let work = work.build().unwrap();
    let stop = CancellationToken::new();
    let builder = jobs::builder().without_annotated().url("memory://stop-with").job(work);
    let jobs = builder.stop_with(stop.clone()).start_all().await.unwrap();
    let manual = tokio::spawn({
        let jobs = jobs.clone();
        async move { jobs.run_now("job").await }
    });
    begins.recv().await.expect("it runs");
    assert_eq!(jobs.health(), Health::Ready);
    stop.cancel();
    let closed = tokio::time::timeout(secs(20), jobs.closed()).await.expect("it ends");
    assert_eq!((closed, jobs.health()), (Closed::ShutDown, Health::Stopped));
    let Ok(RunNow::Ran(record)) = manual.await.unwrap() else { panic!("it ran") };
    assert_eq!(record.outcome, RunOutcome::Succeeded);
}

#[tokio::test]
async fn scheduler_ends_with_the_last_clone_of_its_handle_and_not_before() {
    let noted = Notes::new().lasting(job("1h", 30), 5);
    let builder = jobs::builder().without_annotated().url("memory://last-clone").job(noted());
    let jobs = builder.start_all().await.unwrap();
    let clone = jobs.clone();
    drop(jobs);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(clone.health(), Health::Ready);
    let mut events = clone.events();
    drop(clone);
    let ended = async { while events.next().await.is_some() {} };
    tokio::time::timeout(secs(20), ended).await.expect("the stream of events ends with its scheduler");
}
