//! What a store that is away costs, and what it does not.

use std::sync::atomic::{AtomicUsize, Ordering};

use jobs::events::SkipReason;
use jobs::history::RunOutcome;
use jobs::schedule::Missed;
use jobs::testing::Fleet;
use jobs::{Health, Job, RunNow};

use crate::common::{HOUR, Heard, NOON, Notes, job, secs};

#[tokio::test(start_paused = true)]
async fn outage_at_the_first_tick_of_a_job_does_not_skip_it() {
    let notes = Notes::new();
    let fleet = Fleet::of(1).begins_at(NOON + secs(HOUR - 5)).job(notes.lasting(job("1h", 60), 3));
    let fleet = fleet.start().await.unwrap();
    let heard = Heard::from(fleet.server(0));
    fleet.run_for(secs(2)).await;
    fleet.cut_off_the_store(true);
    fleet.run_for(secs(11)).await;
    assert!(matches!(fleet.server(0).health(), Health::StoreUnavailable { .. }));
    fleet.cut_off_the_store(false);
    fleet.run_for(secs(100)).await;
    assert_eq!(notes.ticks(), [HOUR], "{:?}", heard.all());
}

#[tokio::test(start_paused = true)]
async fn tick_that_passes_in_an_outage_is_reported_with_the_error_and_not_as_superseded() {
    let waits = job("10s", 30).missed(Missed::RunOnce);
    let fleet = Fleet::of(1).job(Notes::new().lasting(waits, 1)).start().await.unwrap();
    let heard = Heard::from(fleet.server(0));
    fleet.cut_off_the_store(true);
    fleet.run_for(secs(25)).await;
    let skips = heard.skips();
    let with_the_error = |skip: &SkipReason| matches!(skip, SkipReason::StoreUnavailable(_));
    assert!(!skips.is_empty() && skips.iter().all(with_the_error), "{skips:?}");
}

/// How long a shutdown takes while the store has been away for so long, and how many runs there were.
async fn shutdown_without_the_store(away_secs: u64) -> (u64, usize) {
    let notes = Notes::new();
    let mut fleet = Fleet::of(1).job(notes.lasting(job("60s", 600), 5)).start().await.unwrap();
    fleet.run_for(secs(30)).await;
    fleet.cut_off_the_store(true);
    fleet.run_for(secs(away_secs)).await;
    let before = fleet.now();
    fleet.shut_down(0).await;
    (fleet.now().since(before).as_secs(), notes.starts().len())
}

#[tokio::test(start_paused = true)]
async fn shutdown_does_not_wait_for_an_unreachable_store() {
    for away_secs in [10, 31, 100, 1000] {
        let (took, runs) = shutdown_without_the_store(away_secs).await;
        assert_eq!(runs, 0);
        assert!(took < 2, "{took} s, although nothing runs, after {away_secs} s without the store");
    }
}

#[tokio::test(start_paused = true)]
async fn caller_of_a_manual_run_elsewhere_learns_of_its_end_over_an_outage_of_the_store() {
    let notes = Notes::new();
    let (expert, made) = (notes.lasting(job("1h", 30), 300), AtomicUsize::new(0));
    let other = || Job::builder("other").run(|_| async {}).build().unwrap();
    let job = move || if made.fetch_add(1, Ordering::SeqCst) == 0 { expert() } else { other() };
    let fleet = Fleet::of(2).job(job).start().await.unwrap();
    fleet.run_for(secs(1)).await;
    let outage = async {
        fleet.run_for(secs(100)).await;
        assert_eq!(notes.going_on(), 1);
        fleet.cut_off_the_store(true);
        fleet.run_for(secs(10)).await;
        fleet.cut_off_the_store(false);
    };
    let (asked, ()) = tokio::join!(fleet.server(1).run_now("job"), outage);
    let Ok(RunNow::Ran(record)) = asked else { panic!("{asked:?}") };
    assert_eq!((record.server.as_str(), record.outcome), ("server-0", RunOutcome::Succeeded));
}
