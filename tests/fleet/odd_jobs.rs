//! Jobs that behave as no job should: none of them takes its scheduler down, and the record says what happened.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jobs::history::{RunOutcome, RunRecord};
use jobs::store::memory::MemoryStore;
use jobs::testing::Fleet;
use jobs::{IntoOutcome, Job, JobBuilder, Run, RunNow};

use crate::common::{Notes, job, secs};

/// The records of two ticks of the only job on the only server, which must live on.
async fn two_runs<F, Fut>(plan: JobBuilder, function: F) -> [RunRecord; 2]
where
    F: Fn(Run) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output: IntoOutcome> + Send + 'static,
{
    let fleet = Fleet::of(1).job(Notes::new().job(plan, function)).start().await.unwrap();
    fleet.run_for(secs(175)).await;
    assert!(fleet.server(0).health().is_ready());
    let runs = fleet.history("job").await.runs;
    runs.try_into().unwrap_or_else(|runs| panic!("two runs, not {runs:?}"))
}

struct PanicsWhenDropped;

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "dropped badly");
    }
}

#[tokio::test(start_paused = true)]
async fn a_value_that_panics_when_dropped_at_the_end_is_a_panic() {
    let runs = two_runs(job("60s", 30), |_| async { drop(PanicsWhenDropped) }).await;
    for run in runs {
        assert_eq!((run.outcome, run.error.as_deref()), (RunOutcome::Panicked, Some("dropped badly")));
    }
}

/// A run that holds on to a value, until it is cancelled, that panics when dropped.
async fn never_ends_and_drops_badly(_: Run) {
    let _held = PanicsWhenDropped;
    std::future::pending::<()>().await;
}

#[tokio::test(start_paused = true)]
async fn a_value_that_panics_when_its_run_times_out_is_on_record_and_its_key_is_free() {
    for run in two_runs(job("60s", 30).timeout(secs(10)), never_ends_and_drops_badly).await {
        assert_eq!((run.outcome, run.error.as_deref()), (RunOutcome::TimedOut, Some("dropped badly")));
        assert_eq!(run.duration(), secs(10));
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_panics_because_it_times_out_is_not_tried_again() {
    let plan = job("60s", 30).timeout(secs(10)).retries(3, secs(1));
    for run in two_runs(plan, never_ends_and_drops_badly).await {
        assert_eq!((run.outcome, run.failed_tries.len()), (RunOutcome::TimedOut, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_fails_as_it_times_out_is_not_tried_again() {
    let plan = job("60s", 30).timeout(secs(10)).retries(3, secs(1));
    let fails = |_| async {
        tokio::time::sleep(secs(10)).await;
        Err::<(), _>("just now")
    };
    // Which of the two is seen first is left to chance.
    for _ in 0..10 {
        for run in two_runs(plan.clone(), fails).await {
            assert_eq!((run.outcome, run.error.as_deref()), (RunOutcome::TimedOut, Some("just now")));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_panics_because_of_a_shutdown_is_unfinished() {
    let notes = Notes::new();
    let plan = job("1h", 30).retry_on_crash(1);
    let mut fleet = Fleet::of(1).job(notes.job(plan, never_ends_and_drops_badly)).start().await.unwrap();
    fleet.run_for(secs(3605)).await;
    fleet.shut_down(0).await;
    assert_eq!(fleet.history("job").await.runs[0].outcome, RunOutcome::Cancelled);
    fleet.add_server().await.unwrap();
    fleet.run_for(secs(5)).await;
    assert_eq!(notes.attempts(), [1, 2]);
}

/// Panics, with this as its payload.
fn throw(payload: impl std::any::Any + Send) {
    std::panic::panic_any(payload)
}

#[tokio::test(start_paused = true)]
async fn a_panic_that_carries_no_text_is_recorded_without_one() {
    let runs = two_runs(job("60s", 30), |_| async { throw(7_u8) }).await;
    for run in runs {
        assert_eq!(run.outcome, RunOutcome::Panicked);
        assert_eq!(run.error.as_deref(), Some("a panic without a message"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_whose_payload_panics_when_dropped_is_recorded() {
    let runs = two_runs(job("60s", 30), |_| async { throw(PanicsWhenDropped) }).await;
    assert!(runs.iter().all(|run| run.outcome == RunOutcome::Panicked));
}

#[tokio::test(start_paused = true)]
async fn a_panic_while_a_panic_is_retried_is_recorded() {
    let plan = job("60s", 30).retries(2, Duration::from_millis(1));
    let runs = two_runs(plan, |run: Run| async move { throw(format!("number {}", run.retry())) }).await;
    for run in runs {
        assert_eq!((run.outcome, run.error.as_deref()), (RunOutcome::Panicked, Some("number 2")));
    }
}

/// An error with odd habits.
#[derive(Debug)]
enum Odd {
    Unspeakable,
    ItsOwnCause,
}

impl fmt::Display for Odd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unspeakable => panic!("cannot be printed"),
            Self::ItsOwnCause => f.write_str("round and round"),
        }
    }
}

impl Error for Odd {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        matches!(self, Self::ItsOwnCause).then_some(self)
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_that_panics_when_printed_is_a_panic() {
    let runs = two_runs(job("60s", 30), |_| async { Err::<(), _>(Odd::Unspeakable) }).await;
    for run in runs {
        assert_eq!((run.outcome, run.error.as_deref()), (RunOutcome::Panicked, Some("cannot be printed")));
    }
}

#[tokio::test(start_paused = true)]
async fn error_that_is_its_own_source_is_printed_once() {
    let runs = two_runs(job("60s", 30), |_| async { Err::<(), _>(Odd::ItsOwnCause) }).await;
    assert_eq!(runs[0].error.as_deref(), Some("round and round"));
}

#[tokio::test(start_paused = true)]
async fn an_error_of_a_megabyte_is_cut_in_the_record_and_in_every_try() {
    let plan = job("60s", 30).retries(1, Duration::from_millis(1));
    let runs = two_runs(plan, |_| async { Err::<(), _>("ß".repeat(500_000)) }).await;
    let run = &runs[0];
    assert_eq!(run.outcome, RunOutcome::Failed);
    let texts = [run.error.as_deref().unwrap(), &run.failed_tries[0].error];
    assert_eq!(texts.map(|text| text.chars().count()), [2001, 2001], "2,000 characters and an ellipsis");
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_a_megabyte_is_cut_too() {
    let runs = two_runs(job("60s", 30), |_| async { throw("x".repeat(1_000_000)) }).await;
    assert_eq!(runs[0].error.as_ref().unwrap().chars().count(), 2001);
}

#[tokio::test(start_paused = true)]
async fn detached_task_of_a_job_learns_that_the_run_was_cancelled() {
    let told = Arc::new(AtomicBool::new(false));
    let learns = told.clone();
    let plan = job("60s", 30).timeout(secs(10));
    let runs = two_runs(plan, move |run: Run| {
        let learns = learns.clone();
        tokio::spawn(async move {
            run.cancelled().await;
            learns.store(true, Ordering::SeqCst);
        });
        std::future::pending::<()>()
    });
    assert!(runs.await.iter().all(|run| run.outcome == RunOutcome::TimedOut));
    assert!(told.load(Ordering::SeqCst));
}

#[tokio::test(start_paused = true)]
async fn a_job_that_spawns_and_forgets_ends_when_its_function_does() {
    let runs = two_runs(job("60s", 30), |_| async {
        tokio::spawn(std::future::pending::<()>());
    });
    for run in runs.await {
        assert_eq!((run.outcome, run.duration()), (RunOutcome::Succeeded, Duration::ZERO));
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_that_panics_on_every_server_stops_none_of_them() {
    let notes = Notes::new();
    let panics = notes.job(job("60s", 30), |_| async { throw("always") });
    let fleet = Fleet::of(3).job(panics).start().await.unwrap();
    fleet.run_for(secs(605)).await;
    assert_eq!(notes.starts().len(), 10);
    assert!(fleet.servers().iter().all(|server| server.health().is_ready()));
}

/// In real time: a thread that blocks cannot be paused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn job_that_blocks_past_its_timeout_keeps_its_lease_until_it_ends() {
    let blocking = Job::builder("job")
        .timeout(Duration::from_millis(50))
        .run(|_| async {
            std::thread::sleep(Duration::from_millis(400));
            tokio::task::yield_now().await;
            std::future::pending::<()>().await;
        })
        .build()
        .unwrap();
    let builder = jobs::builder().without_annotated().store(MemoryStore::named("blocks")).job(blocking);
    let jobs = Arc::new(builder.start_all().await.unwrap());
    let asking = jobs.clone();
    let first = tokio::spawn(async move { asking.run_now("job").await });
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(matches!(jobs.run_now("job").await, Ok(RunNow::Held(_))), "its time is over, but it goes on");
    let Ok(RunNow::Ran(record)) = first.await.unwrap() else { panic!("it ran") };
    assert_eq!(record.outcome, RunOutcome::TimedOut);
    assert!(record.duration() >= Duration::from_millis(400), "{:?}", record.duration());
    Arc::into_inner(jobs).unwrap().shutdown().await;
}
