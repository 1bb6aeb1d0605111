//! What operators do to a run that is in progress, and to a mark: it is final.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use jobs::fleet::ActionKind;
use jobs::history::RunOutcome;
use jobs::testing::Fleet;
use jobs::{CancelOutcome, Job, JobBuilder};

use crate::common::{HOUR, Notes, job, outcomes, runner, secs, subscribe};

fn hourly() -> JobBuilder {
    job("1h", 30).retry_on_crash(3)
}

/// A fleet whose only job has been running for five seconds.
async fn running(notes: &Notes) -> Fleet {
    let fleet = Fleet::of(3).job(notes.lasting(hourly(), 600)).start().await.unwrap();
    fleet.run_for(secs(HOUR + 5)).await;
    assert_eq!(notes.going_on(), 1);
    fleet
}

/// Another server than the one that runs the job.
async fn operator(fleet: &Fleet) -> &jobs::testing::TestServer {
    fleet.server((runner(fleet).await + 1) % 3)
}

#[tokio::test(start_paused = true)]
async fn broken_lock_ends_the_tick_of_its_run() {
    let notes = Notes::new();
    let fleet = running(&notes).await;
    let broken = operator(&fleet).await.break_lock("job").await.unwrap();
    assert_eq!(broken.len(), 1);
    fleet.run_for(secs(1200)).await;
    assert_eq!(notes.attempts(), [1], "no server takes it over");
    assert_eq!(notes.going_on(), 0, "its server has learned of it");
    assert_eq!(outcomes(&fleet).await, [RunOutcome::Broken]);
    fleet.run_for(secs(HOUR)).await;
    assert_eq!(notes.ticks(), [HOUR, 2 * HOUR], "the next tick runs");
}

/// The text of a log, for one thread.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Log {
    fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn log_of_the_holder_names_the_server_that_broke_its_lock() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    let _here = subscribe(subscriber);
    let fleet = running(&Notes::new()).await;
    let by = operator(&fleet).await;
    by.break_lock("job").await.unwrap();
    fleet.run_for(secs(30)).await;
    let expected = format!("[job] the lease was broken by {}", by.server_id());
    assert!(log.text().contains(&expected), "{}", log.text());
}

#[tokio::test(start_paused = true)]
async fn run_that_is_cancelled_has_ended_when_cancel_returns() {
    let notes = Notes::new();
    let fleet = running(&notes).await;
    let begun = fleet.now();
    let by = operator(&fleet).await.by("anna");
    let CancelOutcome::Ended(run) = by.cancel("job").await.unwrap() else { panic!("it has ended") };
    assert_eq!((run.outcome, run.stopped_by.as_deref()), (RunOutcome::Cancelled, Some("anna")));
    assert_eq!(notes.going_on(), 0);
    let took = fleet.now().since(begun);
    assert!(took <= secs(1), "the store notifies its server: {took:?}");
    let actions: Vec<_> =
        by.audit().await.unwrap().into_iter().map(|action| (action.what, action.by)).collect();
    assert_eq!(actions, [(ActionKind::Cancel, "anna".into())]);
    assert_eq!(outcomes(&fleet).await, [RunOutcome::Cancelled]);
}

#[tokio::test(start_paused = true)]
async fn run_that_is_cancelled_is_not_taken_over() {
    let notes = Notes::new();
    let fleet = running(&notes).await;
    let cancelled = operator(&fleet).await.cancel("job").await.unwrap();
    assert!(matches!(cancelled, CancelOutcome::Ended(_)), "{cancelled:?}");
    fleet.run_for(secs(1200)).await;
    assert_eq!(notes.attempts(), [1]);
    fleet.run_for(secs(HOUR)).await;
    assert_eq!(notes.ticks(), [HOUR, 2 * HOUR], "the next tick runs");
}

#[tokio::test(start_paused = true)]
async fn cancel_of_a_job_that_does_not_run_cancels_nothing() {
    let notes = Notes::new();
    let fleet = Fleet::of(2).job(notes.lasting(hourly(), 5)).start().await.unwrap();
    fleet.run_for(secs(HOUR + 60)).await;
    assert_eq!(fleet.server(0).cancel("job").await.unwrap(), CancelOutcome::NotRunning);
    fleet.run_for(secs(HOUR)).await;
    assert_eq!(outcomes(&fleet).await, [RunOutcome::Succeeded, RunOutcome::Succeeded]);
}

#[tokio::test(start_paused = true)]
async fn reset_is_not_undone_by_the_late_end_of_an_older_run() {
    let notes = Notes::new();
    let fleet = Fleet::of(2).job(notes.lasting(job("2m", 30), 60)).start().await.unwrap();
    fleet.run_for(secs(2 * HOUR + 5)).await;
    let cut = runner(&fleet).await;
    fleet.server(cut).cut_off(true);
    fleet.run_for(secs(55)).await;
    // The lease has ended, and its end waits for the connection. Now the store's clock goes back before its tick.
    fleet.clock().step(-3_600_000);
    let other = fleet.server(1 - cut);
    fleet.run_for(secs(10)).await;
    // By that clock its lease lasts for another hour.
    other.break_lock("job").await.unwrap();
    other.reset("job").await.unwrap();
    let before = notes.starts().len();
    fleet.run_for(secs(120)).await;
    assert_eq!(notes.starts().len(), before + 1, "a newer run has ended");
    fleet.server(cut).cut_off(false);
    fleet.run_for(secs(10)).await;
    let before = notes.starts().len();
    fleet.run_for(secs(600)).await;
    assert_eq!(notes.starts().len(), before + 5, "every tick ran: {:?}", notes.starts());
}

#[tokio::test(start_paused = true)]
async fn cancel_of_a_run_whose_server_hangs_returns_in_time() {
    let notes = Notes::new();
    let fleet = running(&notes).await;
    let runner = runner(&fleet).await;
    let by = operator(&fleet).await;
    fleet.server(runner).freeze();
    let begun = fleet.now();
    let CancelOutcome::StillRunning(run) = by.cancel("job").within("5s").await.unwrap() else {
        panic!("its server hangs")
    };
    assert_eq!(run.cancelled_by.as_deref(), Some(by.server_id()));
    let took = fleet.now().since(begun);
    assert!(took >= secs(5) && took < secs(7), "{took:?}");
    let error = by.cancel("job").within("5").await.unwrap_err().to_string();
    assert!(error.starts_with("`within` \"5\": "), "{error}");
}

#[tokio::test(start_paused = true)]
async fn job_that_is_deployed_while_all_are_paused_starts_paused() {
    let notes = Notes::new();
    let is_deployed = Arc::new(AtomicBool::new(false));
    let (deployed, old) = (is_deployed.clone(), notes.lasting(hourly(), 5));
    let new = notes.lasting(Job::builder("new").every("1m").ttl(secs(30)), 5);
    let jobs = move || if deployed.load(Ordering::SeqCst) { new() } else { old() };
    let mut fleet = Fleet::of(1).job(jobs).start().await.unwrap();
    fleet.run_for(secs(HOUR + 60)).await;
    let by = fleet.server(0).by("anna");
    assert_eq!(by.pause_all().reason("the database moves").await.unwrap(), ["job"]);
    is_deployed.store(true, Ordering::SeqCst);
    fleet.add_server().await.unwrap();
    fleet.run_for(secs(600)).await;
    for key in ["job", "new"] {
        let pause = by.history(key).await.unwrap().pause.expect(key);
        assert_eq!(
            (&*pause.by, pause.reason.as_deref(), pause.all),
            ("anna", Some("the database moves"), true)
        );
    }
    assert_eq!(notes.ticks(), [HOUR]);
    assert_eq!(by.resume_all().await.unwrap(), ["job", "new"]);
    fleet.run_for(secs(61)).await;
    assert_eq!(notes.ticks().len(), 2);
}
