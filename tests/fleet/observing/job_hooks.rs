//! The hooks of a job: who calls them, when, how often, and what a bad one does.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use jobs::history::RunOutcome;
use jobs::testing::Fleet;
use jobs::{Job, JobBuilder, Jobs};
use tokio::time::{Instant, sleep};

use crate::common::{HOUR, NOON, Notes, job, outcomes, secs};

/// What hooks wrote down, and when.
#[derive(Clone)]
struct Calls {
    begun: Instant,
    calls: Arc<Mutex<Vec<(u64, String)>>>,
}

impl Calls {
    fn new() -> Self {
        Self { begun: Instant::now(), calls: Arc::default() }
    }

    fn note(&self, call: impl Into<String>) {
        self.calls.lock().unwrap().push((self.begun.elapsed().as_secs(), call.into()));
    }

    /// With seconds since the test began.
    fn timed(&self) -> Vec<(u64, String)> {
        self.calls.lock().unwrap().clone()
    }

    fn all(&self) -> Vec<String> {
        self.timed().into_iter().map(|(_, call)| call).collect()
    }

    /// A job with all three hooks, which note what they are called with.
    fn noting(&self, job: JobBuilder) -> JobBuilder {
        let [success, failure, overdue] = [(); 3].map(|()| self.clone());
        job.on_success(move |run| {
            success.note(format!("{} {} on {}", run.key, run.record.outcome, run.record.server));
            async {}
        })
        .on_failure(move |run| {
            let error = run.record.error.unwrap_or_default();
            failure.note(format!("{} {error} after {}", run.record.outcome, run.record.failed_tries.len()));
            async {}
        })
        .on_overdue(move |tick| {
            overdue.note(format!("{} {}", tick.server, tick.tick.since(NOON).as_secs() / HOUR));
            async {}
        })
    }
}

#[tokio::test(start_paused = true)]
async fn success_is_reported_once_per_tick_by_the_server_that_ran_it() {
    let calls = Calls::new();
    let noting = calls.clone();
    let fleet =
        Fleet::of(3).job(Notes::new().lasting(noting.noting(job("1h", 30)), 5)).start().await.unwrap();
    fleet.run_for(secs(3 * HOUR + 10)).await;
    let runs = fleet.history("job").await.runs;
    let expected: Vec<_> = runs.iter().rev().map(|run| format!("job succeeded on {}", run.server)).collect();
    assert_eq!((calls.all(), expected.len()), (expected, 3));
}

#[tokio::test(start_paused = true)]
async fn run_is_on_record_when_its_hook_is_called() {
    let operator: Arc<OnceLock<Jobs>> = Arc::default();
    let fences = Arc::new(Mutex::new(Vec::new()));
    let (asks, notes) = (operator.clone(), fences.clone());
    let plan = job("1h", 30).on_success(move |run| {
        let (asks, notes) = (asks.clone(), notes.clone());
        async move {
            let history = asks.get().unwrap().history("job").await.unwrap();
            assert_eq!(history.current, None);
            notes.lock().unwrap().push((history.runs[0].fence, run.record.fence));
        }
    });
    let fleet = Fleet::of(2).job(Notes::new().lasting(plan, 5)).start().await.unwrap();
    let Ok(()) = operator.set(Jobs::clone(fleet.server(0))) else { panic!("set once") };
    fleet.run_for(secs(HOUR + 10)).await;
    let fences = fences.lock().unwrap();
    assert!(matches!(fences[..], [(stored, called)] if stored == called), "{fences:?}");
}

#[tokio::test(start_paused = true)]
async fn failure_is_reported_after_the_last_retry_with_error_and_outcome() {
    let calls = Calls::new();
    let ends = {
        let plan = calls.noting(job("1h", 30).retries(2, "1s").timeout("1m"));
        Notes::new().job(plan, |run| async move {
            match run.tick().unwrap().since(NOON).as_secs() / HOUR {
                1 => Err::<(), _>("no luck"),
                2 => panic!("out of cheese"),
                _ => std::future::pending().await,
            }
        })
    };
    let fleet = Fleet::of(2).job(ends).start().await.unwrap();
    fleet.run_for(secs(3 * HOUR + 90)).await;
    let expected = ["failed no luck after 2", "panicked out of cheese after 2", "timed_out  after 0"];
    assert_eq!(calls.all(), expected);
}

#[tokio::test(start_paused = true)]
async fn cancelled_run_and_lost_lease_are_reported_as_failures_at_once() {
    let calls = Calls::new();
    let plan = calls.noting(job("1h", 30));
    let fleet = Fleet::of(1).job(Notes::new().lasting(plan, 600)).start().await.unwrap();
    fleet.run_for(secs(HOUR + 5)).await;
    let cancelled = fleet.server(0).cancel("job").await.unwrap();
    assert!(matches!(cancelled, jobs::CancelOutcome::Ended(_)), "{cancelled:?}");
    fleet.run_for(secs(HOUR)).await;
    fleet.cut_off_the_store(true);
    fleet.run_for(secs(60)).await;
    assert_eq!(calls.all(), ["cancelled  after 0", "lease_lost  after 0"], "while the store is still away");
}

#[tokio::test(start_paused = true)]
async fn manual_run_calls_the_hooks_too() {
    let calls = Calls::new();
    let plan = calls.noting(Job::builder("job"));
    let fleet = Fleet::of(2).job(Notes::new().lasting(plan, 1)).start().await.unwrap();
    fleet.server(1).run_now("job").await.unwrap();
    sleep(secs(1)).await;
    assert_eq!(calls.all(), ["job succeeded on server-1"]);
}

#[tokio::test(start_paused = true)]
async fn overdue_tick_is_reported_once_by_every_server_that_notices_it() {
    let calls = Calls::new();
    let plan = calls.noting(job("1h", 60));
    let fleet = Fleet::of(3).job(Notes::new().lasting(plan, 5)).start().await.unwrap();
    fleet.run_for(secs(HOUR * 3 / 2)).await;
    fleet.cut_off_the_store(true);
    fleet.run_for(secs(HOUR)).await;
    fleet.cut_off_the_store(false);
    fleet.run_for(secs(HOUR)).await;
    let mut overdue: Vec<_> = calls.all().into_iter().filter(|call| !call.contains("succeeded")).collect();
    overdue.sort();
    assert_eq!(overdue, ["server-0 2", "server-1 2", "server-2 2"]);
}

#[tokio::test(start_paused = true)]
async fn crashed_run_calls_no_hook() {
    let calls = Calls::new();
    let plan = calls.noting(job("1h", 30).retry_on_crash(1));
    let fleet = Fleet::of(2).job(Notes::new().lasting(plan, 20)).start().await.unwrap();
    fleet.run_for(secs(HOUR + 5)).await;
    let runner = fleet.running("job").await.expect("a run");
    let left = if runner.server_id() == "server-0" { "server-1" } else { "server-0" };
    runner.crash();
    fleet.run_for(secs(120)).await;
    assert_eq!(outcomes(&fleet).await, [RunOutcome::Crashed, RunOutcome::Succeeded]);
    assert_eq!(calls.all(), [format!("job succeeded on {left}")], "of the takeover alone");
}

#[tokio::test(start_paused = true)]
async fn hook_that_panics_or_fails_disturbs_nothing() {
    let calls = Calls::new();
    let (panics, fails) = (calls.clone(), calls.clone());
    let plan = job("1h", 30)
        .on_success(move |_| -> std::future::Ready<()> {
            panics.note("panics");
            panic!("a mistake in the hook")
        })
        .on_failure(move |_| {
            fails.note("fails");
            async { Err::<(), _>("the monitor is unreachable") }
        });
    let ends = Notes::new().job(plan, |run| async move {
        let hours = run.tick().unwrap().since(NOON).as_secs() / HOUR;
        if hours.is_multiple_of(2) { Err("no luck") } else { Ok(()) }
    });
    let fleet = Fleet::of(1).job(ends).start().await.unwrap();
    fleet.run_for(secs(4 * HOUR + 10)).await;
    assert_eq!(calls.all(), ["panics", "fails", "panics", "fails"]);
    assert!(fleet.server(0).health().is_ready());
}

/// Notes when it is dropped.
struct Dropped(Calls);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.note("dropped");
    }
}

/// A job of so many seconds whose hooks take so long.
fn slow_hooks(calls: &Calls, run_secs: u64, hook: Duration) -> impl Fn() -> Job + Send + Sync + use<> {
    let slow = |calls: Calls| {
        move |_| {
            let calls = calls.clone();
            async move {
                let _dropped = Dropped(calls.clone());
                sleep(hook).await;
                calls.note("finished");
            }
        }
    };
    let plan = job("1h", 30).on_success(slow(calls.clone())).on_failure(slow(calls.clone()));
    Notes::new().lasting(plan, run_secs)
}

#[tokio::test(start_paused = true)]
async fn hook_that_hangs_is_cancelled_after_30_s_and_delays_no_run() {
    let calls = Calls::new();
    let fleet = Fleet::of(1).job(slow_hooks(&calls, 5, secs(2 * HOUR))).start().await.unwrap();
    fleet.run_for(secs(2 * HOUR + 100)).await;
    let at = |hour| (hour * HOUR + 5 + 30, "dropped".to_owned());
    assert_eq!(calls.timed(), [at(1), at(2)]);
}

#[tokio::test(start_paused = true)]
async fn shutdown_waits_for_a_hook_and_cancels_one_that_hangs_after_its_grace() {
    for (hook, expected) in [(secs(10), vec!["finished", "dropped"]), (secs(HOUR), vec!["dropped"])] {
        let calls = Calls::new();
        let mut fleet =
            Fleet::of(1).job(slow_hooks(&calls, 5, hook)).shutdown_grace(secs(15)).start().await.unwrap();
        fleet.run_for(secs(HOUR + 6)).await;
        let begun = Instant::now();
        fleet.shut_down(0).await;
        let took = begun.elapsed();
        assert_eq!(calls.all(), expected);
        assert!(took <= secs(17), "{took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn hook_of_a_run_that_a_shutdown_cancels_has_a_second() {
    for (millis, expected) in [(900, vec!["finished", "dropped"]), (1100, vec!["dropped"])] {
        let calls = Calls::new();
        let job = slow_hooks(&calls, 600, Duration::from_millis(millis));
        let mut fleet = Fleet::of(1).job(job).shutdown_grace(secs(15)).start().await.unwrap();
        fleet.run_for(secs(HOUR + 6)).await;
        fleet.shut_down(0).await;
        assert_eq!(calls.all(), expected);
        assert_eq!(outcomes(&fleet).await, [RunOutcome::Cancelled]);
    }
}
