use std::time::Duration;

use jobs::Run;
use jobs::events::EventKind;
use jobs::history::RunOutcome;
use jobs::schedule::Missed;
use jobs::testing::Fleet;

use crate::common::{HOUR, Heard, NOON, Notes, job, outcomes, runner, secs};

/// A run takes as many seconds as its hour says; the third fails.
async fn longer_every_hour(run: Run) -> Result<(), &'static str> {
    let hour = run.tick().unwrap().since(NOON).as_secs() / HOUR;
    tokio::time::sleep(secs(hour)).await;
    if hour == 3 { Err("no") } else { Ok(()) }
}

#[tokio::test(start_paused = true)]
async fn runs_successes_and_failures_are_counted_over_all_servers() {
    let fleet = Fleet::of(3).job(Notes::new().job(job("1h", 30), longer_every_hour)).start().await.unwrap();
    fleet.run_for(secs(4 * HOUR + 60)).await;
    let stats = fleet.history("job").await.stats;
    assert_eq!((stats.runs, stats.successes, stats.failures), (4, 3, 1));
    assert_eq!(stats.longest(), Some(secs(4)));
    assert_eq!(stats.mean().unwrap().as_millis(), 7000 / 3, "of 1, 2 and 4 s");
    assert_eq!(stats.last_success, Some(NOON + secs(4 * HOUR + 4)));
}

#[tokio::test(start_paused = true)]
async fn crash_counts_as_a_failure_before_the_next_claim() {
    let fleet = Fleet::of(2).job(Notes::new().lasting(job("1h", 30), 60)).start().await.unwrap();
    fleet.run_for(secs(HOUR + 1)).await;
    fleet.server(runner(&fleet).await).crash();
    fleet.run_for(secs(10)).await;
    assert_eq!(fleet.history("job").await.stats.runs, 0, "for all that is known it goes on");
    fleet.run_for(secs(60)).await;
    let history = fleet.history("job").await;
    assert_eq!((history.stats.runs, history.stats.failures), (1, 1));
    fleet.run_for(secs(HOUR)).await;
    let history = fleet.history("job").await;
    assert_eq!((history.stats.runs, history.stats.failures), (2, 1), "and is counted once");
}

#[tokio::test(start_paused = true)]
async fn a_lease_under_which_nothing_started_is_no_run() {
    let notes = Notes::new();
    let fleet = Fleet::of(1).job(notes.lasting(job("1h", 30), 5)).start().await.unwrap();
    fleet.run_for(secs(HOUR - 1)).await;
    fleet.server(0).lose_replies(true);
    fleet.run_for(secs(40)).await;
    fleet.server(0).lose_replies(false);
    fleet.run_for(secs(40)).await;
    assert!(notes.starts().is_empty());
    assert_eq!(outcomes(&fleet).await, [RunOutcome::NotStarted]);
    assert_eq!(fleet.history("job").await.stats.runs, 0);
}

/// Every run takes 10 s, but for one, which takes a minute.
async fn overruns(the_long_one: u64) -> Vec<EventKind> {
    let uneven = Notes::new().job(job("1h", 30), move |run| async move {
        let hour = run.tick().unwrap().since(NOON).as_secs() / HOUR;
        tokio::time::sleep(secs(if hour == the_long_one { 60 } else { 10 })).await;
    });
    let fleet = Fleet::of(1).job(uneven).start().await.unwrap();
    let heard = Heard::from(fleet.server(0));
    fleet.run_for(secs(the_long_one * HOUR + 15)).await;
    let overran = |kind: &EventKind| matches!(kind, EventKind::Overrun { .. });
    assert_eq!(heard.count(overran), 0, "not before twice the usual time");
    fleet.run_for(secs(HOUR)).await;
    heard.all().into_iter().filter(overran).collect()
}

#[tokio::test(start_paused = true)]
async fn overrun_is_reported_once_per_run_after_three_successes() {
    let told = overruns(4).await;
    let [EventKind::Overrun { run, usual }] = &told[..] else { panic!("{told:?}") };
    assert_eq!((run.tick, *usual), (Some(NOON + secs(4 * HOUR)), secs(10)));
    assert!(overruns(3).await.is_empty(), "two successes do not tell what is usual");
}

/// How often a job that usually takes 2 ms is said to overrun when one run takes so long.
async fn overruns_of_a_quick_job(millis: u64) -> usize {
    let quick = Notes::new().job(job("1h", 30), move |run| async move {
        let hour = run.tick().unwrap().since(NOON).as_secs() / HOUR;
        tokio::time::sleep(Duration::from_millis(if hour == 5 { millis } else { 2 })).await;
    });
    let fleet = Fleet::of(1).job(quick).start().await.unwrap();
    let heard = Heard::from(fleet.server(0));
    fleet.run_for(secs(6 * HOUR)).await;
    heard.count(|kind| matches!(kind, EventKind::Overrun { .. }))
}

#[tokio::test(start_paused = true)]
async fn a_quick_job_overruns_only_after_a_tenth_of_a_second() {
    assert_eq!(overruns_of_a_quick_job(99).await, 0);
    assert_eq!(overruns_of_a_quick_job(102).await, 1);
}

/// The ticks that the server said to be overdue, in hours, while the store was away from half past one to half past
/// three.
async fn overdue(missed: Missed) -> Vec<u64> {
    let plan = job("1h", 60).missed(missed);
    let fleet = Fleet::of(1).job(Notes::new().lasting(plan, 5)).start().await.unwrap();
    let heard = Heard::from(fleet.server(0));
    fleet.run_for(secs(HOUR * 3 / 2)).await;
    fleet.cut_off_the_store(true);
    fleet.run_for(secs(2 * HOUR)).await;
    fleet.wipe("job");
    fleet.cut_off_the_store(false);
    fleet.run_for(secs(HOUR)).await;
    let overdue = |kind| match kind {
        EventKind::Overdue { tick } => Some(tick.since(NOON).as_secs() / HOUR),
        _ => None,
    };
    heard.all().into_iter().filter_map(overdue).collect()
}

#[tokio::test(start_paused = true)]
async fn tick_that_no_server_started_within_its_grace_is_reported_once() {
    assert_eq!(overdue(Missed::Skip).await, [2, 3]);
}

#[tokio::test(start_paused = true)]
async fn tick_that_is_still_being_claimed_after_its_grace_is_reported_once() {
    assert_eq!(overdue(Missed::RunOnce).await, [2, 3], "though a wiped store calls it late again");
}

#[tokio::test(start_paused = true)]
async fn a_tick_that_another_server_runs_is_not_overdue() {
    let fleet = Fleet::of(3).job(Notes::new().lasting(job("60s", 10), 50)).start().await.unwrap();
    let heard: Vec<_> = fleet.servers().iter().map(Heard::from).collect();
    fleet.run_for(secs(HOUR)).await;
    let overdue = |heard: &Heard| heard.count(|kind| matches!(kind, EventKind::Overdue { .. }));
    assert_eq!(heard.iter().map(overdue).sum::<usize>(), 0);
}
