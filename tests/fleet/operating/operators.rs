//! What operators do to a run that is in progress, and to a mark: it is final.

use std::io::Write;
use std::sync::{Arc, Mutex};

use jobs::JobBuilder;
use jobs::history::RunOutcome;
use jobs::testing::Fleet;

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
    assert!(operator(&fleet).await.cancel("job").await.unwrap());
    assert_eq!(notes.going_on(), 0);
    let took = fleet.now().since(begun);
    assert!(took <= secs(11), "at its next extension, a third of the ttl later at most: {took:?}");
    assert_eq!(outcomes(&fleet).await, [RunOutcome::Cancelled]);
}

#[tokio::test(start_paused = true)]
async fn run_that_is_cancelled_is_not_taken_over() {
    let notes = Notes::new();
    let fleet = running(&notes).await;
    assert!(operator(&fleet).await.cancel("job").await.unwrap());
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
    assert!(!fleet.server(0).cancel("job").await.unwrap());
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
