use std::sync::{Arc, Mutex};
use std::time::Duration;

use jobs::events::EventKind;
use jobs::history::RunOutcome;
use jobs::store::memory::MemoryStore;
use jobs::testing::Fleet;
use jobs::{CancellationToken, Job, Run, RunNow};

use crate::common::{AGES, Heard, Notes, job, outcomes, secs};

/// Writes down, when a job's future is dropped, whether its run was told to stop before.
struct Dropped(Run, Arc<Mutex<Vec<bool>>>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.1.lock().unwrap().push(self.0.is_cancelled());
    }
}

#[tokio::test(start_paused = true)]
async fn run_past_its_timeout_is_notified_then_dropped() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let noted = told.clone();
    let endless = Notes::new().job(job("60s", 30).timeout(secs(10)), move |run| {
        let dropped = Dropped(run, noted.clone());
        async move {
            let _dropped = dropped;
            std::future::pending::<()>().await;
        }
    });
    let fleet = Fleet::of(1).job(endless).start().await.unwrap();
    fleet.run_for(secs(69)).await;
    assert!(told.lock().unwrap().is_empty(), "it has a second left");
    fleet.run_for(secs(2)).await;
    assert_eq!(*told.lock().unwrap(), [true]);
}

#[tokio::test(start_paused = true)]
async fn a_run_past_its_timeout_is_on_record_and_its_key_is_free() {
    let notes = Notes::new();
    let endless = notes.job(job("60s", 30).timeout(secs(10)), |_| std::future::pending::<()>());
    let fleet = Fleet::of(2).job(endless).start().await.unwrap();
    let heard = Heard::from(fleet.server(0));
    fleet.run_for(secs(71)).await;
    let history = fleet.history("job").await;
    assert!(history.current.is_none(), "released once it was gone");
    assert_eq!(history.runs[0].outcome, RunOutcome::TimedOut);
    assert_eq!(history.runs[0].duration(), secs(10));
    assert_eq!(heard.count(|kind| matches!(kind, EventKind::TimedOut { .. })), 1);
    fleet.run_for(secs(60)).await;
    assert_eq!(notes.ticks(), [60, 120], "the next tick found the key free");
}

#[tokio::test(start_paused = true)]
async fn run_within_its_timeout_is_not_cancelled() {
    let fleet = Fleet::of(1).job(Notes::new().lasting(job("60s", 30).timeout(secs(10)), 9));
    let fleet = fleet.start().await.unwrap();
    fleet.run_for(secs(75)).await;
    assert_eq!(outcomes(&fleet).await, [RunOutcome::Succeeded]);
}

#[tokio::test(start_paused = true)]
async fn the_timeout_is_for_a_run_with_all_its_tries() {
    let notes = Notes::new();
    let failing = job("1h", 30).timeout(secs(30)).retries(100, secs(1));
    let failing = notes.job(failing, |run| async move {
        tokio::time::sleep(secs(4)).await;
        Err::<(), _>(format!("try {}", run.retry()))
    });
    let fleet = Fleet::of(1).job(failing).start().await.unwrap();
    fleet.run_for(secs(3660)).await;
    let run = fleet.history("job").await.runs.remove(0);
    assert_eq!((run.outcome, run.duration()), (RunOutcome::TimedOut, secs(30)));
    assert!(notes.starts().len() > 1, "it was tried more than once");
    assert_eq!(run.failed_tries[0].error, "try 0");
}

#[tokio::test(start_paused = true)]
async fn a_timeout_in_the_pause_between_two_tries_ends_the_run() {
    let notes = Notes::new();
    let failing = job("1h", 30).timeout(secs(10)).retries(1, AGES);
    let failing = notes.job(failing, |_| async { Err::<(), _>("no luck") });
    let fleet = Fleet::of(1).job(failing).start().await.unwrap();
    fleet.run_for(secs(3620)).await;
    let run = fleet.history("job").await.runs.remove(0);
    assert_eq!((run.outcome, run.duration()), (RunOutcome::TimedOut, secs(10)));
    assert_eq!(run.error.as_deref(), Some("no luck"), "why it was waiting");
    assert_eq!(notes.starts().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn cancellation_token_is_cancelled_with_its_run() {
    let tokens = Arc::new(Mutex::new(Vec::<CancellationToken>::new()));
    let kept = tokens.clone();
    let endless = Notes::new().job(job("60s", 30).timeout("10s"), move |run| {
        kept.lock().unwrap().push(run.cancellation_token());
        std::future::pending::<()>()
    });
    let fleet = Fleet::of(1).job(endless).start().await.unwrap();
    fleet.run_for(secs(69)).await;
    let token = tokens.lock().unwrap()[0].clone();
    assert!(!token.is_cancelled(), "the run has a second left");
    fleet.run_for(secs(2)).await;
    assert!(token.is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn cancelling_a_token_does_not_cancel_its_run() {
    let cancels_token = Notes::new().job(job("60s", 30), |run: Run| async move {
        run.cancellation_token().cancel();
        tokio::time::sleep(secs(5)).await;
        assert!(!run.is_cancelled() && !run.cancellation_token().is_cancelled());
    });
    let fleet = Fleet::of(1).job(cancels_token).start().await.unwrap();
    fleet.run_for(secs(70)).await;
    assert_eq!(outcomes(&fleet).await, [RunOutcome::Succeeded]);
}

/// In real time: a thread that blocks cannot be paused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocking_job_that_returns_after_its_timeout_is_reported_as_timed_out() {
    let blocking =
        Job::builder("job").timeout("50ms").run(|_| async { std::thread::sleep(Duration::from_millis(300)) });
    let store = MemoryStore::named("returns-after-its-timeout");
    let builder = jobs::builder().without_annotated().store(store).job(blocking.build().unwrap());
    let jobs = builder.start_all().await.unwrap();
    let mut events = jobs.events();
    let Ok(RunNow::Ran(record)) = jobs.run_now("job").await else { panic!("it ran") };
    assert_eq!(record.outcome, RunOutcome::TimedOut);
    assert!(record.error.as_ref().is_some_and(|error| error.contains("spawn_blocking")), "{record:?}");
    let mut kinds = Vec::new();
    while !matches!(kinds.last(), Some(EventKind::TimedOut { .. })) {
        kinds.push(events.next().await.expect("an event").kind);
    }
    let late = kinds.iter().filter(|kind| matches!(kind, EventKind::ReturnedAfterTimeout(_)));
    assert_eq!(late.count(), 1, "{kinds:?}");
    jobs.shutdown().await;
}
