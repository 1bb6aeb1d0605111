//! The last log lines of a run, in its record on every server.

use std::time::Duration;

use jobs::history::RunOutcome;
use jobs::testing::Fleet;
use jobs::{Job, LogTail};
use tracing::{Instrument, Span, debug, info, info_span};
use tracing_subscriber::layer::SubscriberExt;

use crate::common::{HOUR, job, outcomes, secs, subscribe};

fn tail() -> LogTail {
    LogTail::new().without_fields(["password"])
}

/// The log of the newest run, as another server reads it.
async fn newest(fleet: &Fleet, key: &str) -> Option<String> {
    let run = fleet.history(key).await.runs.remove(0);
    let other = fleet.servers().iter().find(|server| server.server_id() != run.server).expect("another one");
    let read = other.history(key).await.unwrap().runs.remove(0);
    assert_eq!(read.log, run.log);
    read.log
}

fn logging() -> Job {
    let import = job("1h", 30).retries(1, "1s").run(|run| async move {
        debug!("too verbose");
        info!(rows = 3, password = "hunter2", "signed in");
        tokio::time::sleep(Duration::from_millis(1500)).await;
        let inside = async { info!("in a task of its own") }.instrument(info_span!("page", number = 1));
        tokio::spawn(inside.instrument(Span::current())).await.unwrap();
        if run.retry() == 0 { Err("no luck") } else { Ok(()) }
    });
    import.build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn record_of_a_run_has_the_last_lines_of_all_its_tries() {
    let _here = subscribe(tracing_subscriber::registry().with(tail()));
    let fleet = Fleet::of(3).job(logging).start().await.unwrap();
    fleet.run_for(secs(HOUR + 10)).await;
    info!("outside of any run");
    assert_eq!(outcomes(&fleet).await, [RunOutcome::Succeeded]);
    let log = newest(&fleet, "job").await.expect("a log");
    let lines: Vec<_> = log.lines().collect();
    let [first, second, retry, again, last] = lines[..] else { panic!("{log}") };
    assert_eq!(first, "0.000s INFO fleet::observing::log_tail: signed in rows=3");
    assert_eq!(second, "1.500s INFO fleet::observing::log_tail: in a task of its own");
    assert!(retry.starts_with("1.500s WARN jobs: [job] failed, retrying in"), "{retry}");
    assert!(again.ends_with("signed in rows=3") && last.ends_with("in a task of its own"), "{log}");
}

#[tokio::test(start_paused = true)]
async fn run_that_logs_much_keeps_its_newest_lines_in_4_kib() {
    let _here = subscribe(tracing_subscriber::registry().with(tail()));
    let logs_much = || {
        let job = job("1h", 30).run(|_| async { (1..=10_000).for_each(|row| info!(row, "Größe ☃")) });
        job.build().unwrap()
    };
    let fleet = Fleet::of(2).job(logs_much).start().await.unwrap();
    fleet.run_for(secs(HOUR + 10)).await;
    let log = newest(&fleet, "job").await.expect("a log");
    assert!((4000..=4096).contains(&log.len()), "{}", log.len());
    assert!(log.starts_with("0.000s INFO ") && log.ends_with("Größe ☃ row=10000\n"), "{log}");
}

#[tokio::test(start_paused = true)]
async fn logs_of_runs_at_the_same_time_stay_apart() {
    let _here = subscribe(tracing_subscriber::registry().with(tail()));
    let mut fleet = Fleet::of(2);
    for key in ["a", "b", "c"] {
        fleet = fleet.job(move || {
            let job = Job::builder(key).every("1h").run(move |run| async move {
                for step in 1..=3 {
                    info!("{} {step}", run.key());
                    tokio::time::sleep(secs(1)).await;
                }
            });
            job.build().unwrap()
        });
    }
    let fleet = fleet.start().await.unwrap();
    fleet.run_for(secs(HOUR + 10)).await;
    for key in ["a", "b", "c"] {
        let log = newest(&fleet, key).await.expect("a log");
        let steps: Vec<_> = log.lines().filter_map(|line| Some(line.rsplit_once(": ")?.1)).collect();
        assert_eq!(steps, [1, 2, 3].map(|step| format!("{key} {step}")), "{log}");
    }
}

#[tokio::test(start_paused = true)]
async fn run_without_the_layer_has_no_log() {
    let _here = subscribe(tracing_subscriber::registry());
    let fleet = Fleet::of(2).job(logging).start().await.unwrap();
    fleet.run_for(secs(HOUR + 10)).await;
    assert_eq!(outcomes(&fleet).await, [RunOutcome::Succeeded]);
    assert_eq!(newest(&fleet, "job").await, None);
}

#[tokio::test(start_paused = true)]
async fn crashed_run_has_no_log_and_a_cancelled_one_has() {
    let _here = subscribe(tracing_subscriber::registry().with(tail()));
    let endless = || {
        let job = job("1h", 30).run(|_| async {
            info!("begun");
            std::future::pending::<()>().await;
        });
        job.build().unwrap()
    };
    let fleet = Fleet::of(3).job(endless).start().await.unwrap();
    fleet.run_for(secs(HOUR + 5)).await;
    fleet.running("job").await.expect("a run").crash();
    fleet.run_for(secs(HOUR)).await;
    let runner = fleet.running("job").await.expect("the next tick");
    let cancelled = runner.cancel("job").await.unwrap();
    assert!(matches!(cancelled, jobs::CancelOutcome::Ended(_)), "{cancelled:?}");
    let runs = fleet.history("job").await.runs;
    let ends: Vec<_> = runs.iter().map(|run| (run.outcome, run.log.is_some())).collect();
    assert_eq!(ends, [(RunOutcome::Cancelled, true), (RunOutcome::Crashed, false)]);
}
