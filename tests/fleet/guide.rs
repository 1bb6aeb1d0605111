//! What `jobs::guide::failures` says, checked on a fleet with a paused clock.

use std::time::Duration;

use jobs::events::{EventKind, SkipReason};
use jobs::history::{RunOutcome, RunRecord};
use jobs::schedule::{Missed, OnLost, Overlap};
use jobs::testing::Fleet;
use jobs::{Job, RunNow};
use tokio::time::sleep;

const KEY: &str = "close-books";
const TTL: Duration = Duration::from_secs(30);
const SLACK: Duration = Duration::from_millis(200);
const HOUR: Duration = Duration::from_secs(3600);

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn hourly() -> jobs::JobBuilder {
    Job::builder(KEY).every("0 * * * *").ttl(TTL)
}

/// The runs, oldest first.
async fn runs(fleet: &Fleet) -> Vec<RunRecord> {
    fleet.history(KEY).await.runs.into_iter().rev().collect()
}

async fn outcomes(fleet: &Fleet) -> Vec<(u32, RunOutcome)> {
    runs(fleet).await.iter().map(|run| (run.attempt, run.outcome)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_tick_that_a_deploy_cancels_is_taken_over_within_ttl_and_slack() {
    let job = || hourly().retry_on_crash(1).run(|_| sleep(seconds(600))).build().unwrap();
    let mut fleet = Fleet::of(3).job(job).start().await.unwrap();
    fleet.run_for(HOUR + seconds(60)).await;
    let running = fleet.running(KEY).await.unwrap().server_id().to_owned();
    let number = fleet.servers().iter().position(|server| server.server_id() == running).unwrap();
    fleet.shut_down(number).await;
    fleet.run_for(TTL + SLACK).await;
    let history = fleet.history(KEY).await;
    assert_eq!(history.runs[0].outcome, RunOutcome::Cancelled);
    assert!(history.current.unwrap().started.since(history.runs[0].ended) <= TTL + SLACK);
}

#[tokio::test(start_paused = true)]
async fn a_tick_that_a_deploy_cancels_is_taken_over_at_once_by_a_server_that_starts() {
    let job = || hourly().retry_on_crash(1).run(|_| sleep(seconds(600))).build().unwrap();
    let mut fleet = Fleet::of(1).job(job).start().await.unwrap();
    fleet.run_for(HOUR + seconds(60)).await;
    fleet.shut_down(0).await;
    fleet.add_server().await.unwrap();
    fleet.run_for(seconds(1)).await;
    assert_eq!(fleet.history(KEY).await.current.unwrap().attempt, 2);
}

#[tokio::test(start_paused = true)]
async fn no_retry_begins_during_a_shutdown() {
    let job = || {
        hourly()
            .retries(9, seconds(1))
            .run(|_| async {
                sleep(seconds(10)).await;
                Err::<(), _>("no")
            })
            .build()
            .unwrap()
    };
    let mut fleet = Fleet::of(1).job(job).start().await.unwrap();
    fleet.run_for(HOUR + seconds(5)).await;
    fleet.shut_down(0).await;
    assert_eq!(outcomes(&fleet).await, [(1, RunOutcome::Cancelled)]);
    assert!(runs(&fleet).await[0].duration() < seconds(11), "its first try ended, and no other began");
}

#[tokio::test(start_paused = true)]
async fn a_queued_tick_starts_at_once_on_the_server_of_the_last_run() {
    let job = || hourly().overlap(Overlap::Queue).run(|_| sleep(HOUR + seconds(100))).build().unwrap();
    let fleet = Fleet::of(5).job(job).start().await.unwrap();
    fleet.run_for(2 * HOUR + seconds(200)).await;
    let (first, second) = (runs(&fleet).await.remove(0), fleet.history(KEY).await.current.unwrap());
    assert_eq!((&second.server, second.started), (&first.server, first.ended));
}

#[tokio::test(start_paused = true)]
async fn a_queued_tick_starts_elsewhere_within_a_ttl() {
    let job = || hourly().overlap(Overlap::Queue).run(|_| sleep(HOUR + seconds(100))).build().unwrap();
    let mut fleet = Fleet::of(1).job(job).start().await.unwrap();
    fleet.run_for(HOUR + seconds(1)).await;
    fleet.add_server().await.unwrap();
    fleet.run_for(HOUR + seconds(60)).await; // the next tick waits on both
    fleet.server(0).crash();
    let crashed_at = fleet.now();
    fleet.run_for(TTL + 2 * SLACK).await;
    let second = fleet.history(KEY).await.current.unwrap();
    assert_eq!(second.server, fleet.server(1).server_id());
    assert!(second.started.since(crashed_at) <= TTL + 2 * SLACK);
}

#[tokio::test(start_paused = true)]
async fn a_takeover_comes_before_a_tick_that_waits() {
    let job = || {
        hourly()
            .overlap(Overlap::Queue)
            .retry_on_crash(1)
            .run(|_| sleep(HOUR + seconds(100)))
            .build()
            .unwrap()
    };
    let fleet = Fleet::of(3).job(job).start().await.unwrap();
    fleet.run_for(2 * HOUR + seconds(60)).await;
    fleet.running(KEY).await.unwrap().crash();
    fleet.run_for(seconds(60)).await;
    let history = fleet.history(KEY).await;
    let again = history.current.unwrap();
    assert_eq!((again.attempt, again.tick), (2, history.runs[0].tick));
}

#[tokio::test(start_paused = true)]
async fn outage_that_ends_before_the_next_tick_skips_no_tick_with_run_once() {
    for (missed, expected) in [(Missed::RunOnce, 1), (Missed::Skip, 0)] {
        let fleet = Fleet::of(3).job(move || hourly().missed(missed).run(|_| async {}).build().unwrap());
        let fleet = fleet.start().await.unwrap();
        fleet.run_for(HOUR + seconds(60)).await;
        let before = runs(&fleet).await.len();
        fleet.cut_off_the_store(true);
        fleet.run_for(HOUR + seconds(600)).await;
        fleet.cut_off_the_store(false);
        fleet.run_for(seconds(5)).await;
        assert_eq!(runs(&fleet).await.len() - before, expected, "{missed:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_end_is_not_reported_within_its_lease_is_taken_over() {
    let job = || hourly().retry_on_crash(1).run(|_| sleep(seconds(20))).build().unwrap();
    let fleet = Fleet::of(2).job(job).start().await.unwrap();
    fleet.run_for(HOUR + seconds(15)).await;
    let cut_off = fleet.running(KEY).await.unwrap();
    cut_off.cut_off(true);
    fleet.run_for(seconds(60)).await;
    cut_off.cut_off(false);
    fleet.run_for(seconds(60)).await;
    assert_eq!(outcomes(&fleet).await, [(1, RunOutcome::Crashed), (2, RunOutcome::Succeeded)]);
}

#[tokio::test(start_paused = true)]
async fn wiped_store_learns_of_a_run_again_and_forgets_a_pause() {
    let fleet =
        Fleet::of(3).job(|| hourly().run(|_| sleep(seconds(120))).build().unwrap()).start().await.unwrap();
    fleet.run_for(HOUR + seconds(60)).await;
    fleet.server(0).pause(KEY).await.unwrap();
    let before = fleet.history(KEY).await.current.unwrap();
    fleet.wipe(KEY);
    fleet.run_for(TTL / 3 + seconds(1)).await;
    let after = fleet.history(KEY).await;
    assert_eq!(after.pause, None);
    assert_eq!(after.current.map(|run| (run.tick, run.fence)), Some((before.tick, before.fence)));
}

#[tokio::test(start_paused = true)]
async fn tick_beyond_its_grace_does_not_run_after_a_wipe() {
    let job = || hourly().missed(Missed::RunOnce).run(|_| async {}).build().unwrap();
    let mut fleet = Fleet::of(1).job(job).start().await.unwrap();
    fleet.run_for(HOUR + seconds(600)).await;
    fleet.wipe(KEY);
    fleet.add_server().await.unwrap();
    fleet.run_for(seconds(60)).await;
    assert_eq!(outcomes(&fleet).await, []);
}

#[tokio::test(start_paused = true)]
async fn when_the_stores_clock_jumps_ahead_a_run_is_cancelled_at_its_next_keep_alive() {
    let fleet =
        Fleet::of(2).job(|| hourly().run(|_| sleep(seconds(600))).build().unwrap()).start().await.unwrap();
    fleet.run_for(HOUR + seconds(60)).await;
    fleet.clock().step(120_000);
    fleet.run_for(TTL / 3).await;
    assert_eq!(outcomes(&fleet).await, [(1, RunOutcome::LeaseLost)]);
}

#[tokio::test(start_paused = true)]
async fn pause_postpones_a_takeover_until_the_resume() {
    let job = || hourly().retry_on_crash(1).run(|_| sleep(seconds(600))).build().unwrap();
    let fleet = Fleet::of(2).job(job).start().await.unwrap();
    fleet.run_for(HOUR + seconds(60)).await;
    let crashed = fleet.running(KEY).await.unwrap();
    crashed.crash();
    let other = fleet.servers().iter().find(|server| !server.has_crashed()).unwrap();
    other.pause(KEY).await.unwrap();
    fleet.run_for(seconds(600)).await;
    assert_eq!(outcomes(&fleet).await, [(1, RunOutcome::Crashed)]);
    other.resume(KEY).await.unwrap();
    fleet.run_for(TTL + SLACK).await;
    assert_eq!(fleet.history(KEY).await.current.unwrap().attempt, 2);
}

#[tokio::test(start_paused = true)]
async fn ticks_before_and_during_a_pause_are_not_run_after_it() {
    let job = || hourly().missed(Missed::RunOnce).run(|_| async {}).build().unwrap();
    let mut fleet = Fleet::of(1).job(job).start().await.unwrap();
    fleet.run_for(HOUR + seconds(60)).await;
    fleet.server(0).pause(KEY).await.unwrap();
    fleet.shut_down(0).await;
    fleet.run_for(HOUR).await; // nobody is there to skip this one
    let number = fleet.add_server().await.unwrap();
    fleet.server(number).resume(KEY).await.unwrap();
    fleet.run_for(seconds(600)).await;
    assert_eq!(outcomes(&fleet).await, [(1, RunOutcome::Succeeded)]);
}

#[tokio::test(start_paused = true)]
async fn manual_run_is_not_taken_over_and_keeps_no_tick() {
    let job = || hourly().retry_on_crash(1).run(|_| sleep(seconds(60))).build().unwrap();
    let fleet = Fleet::of(2).job(job).start().await.unwrap();
    let by_hand = fleet.server(0).run_now(KEY);
    assert!(tokio::time::timeout(seconds(10), by_hand).await.is_err());
    fleet.server(0).crash();
    fleet.run_for(seconds(600)).await;
    assert_eq!(outcomes(&fleet).await, [(1, RunOutcome::Crashed)]);
    let RunNow::Ran(run) = fleet.server(1).run_now(KEY).await.unwrap() else { panic!("the key is free") };
    assert_eq!((run.tick, run.outcome), (None, RunOutcome::Succeeded));
    fleet.run_for(HOUR).await;
    assert!(runs(&fleet).await[2].tick.is_some(), "the tick runs as if nothing had been");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_continues_without_a_lease_keeps_its_server_from_claiming() {
    let job = || {
        hourly()
            .keep_alive(false)
            .on_lost(OnLost::Continue)
            .run(|_| sleep(HOUR + seconds(60)))
            .build()
            .unwrap()
    };
    let fleet = Fleet::of(1).job(job).start().await.unwrap();
    let mut events = fleet.server(0).events();
    fleet.run_for(2 * HOUR + seconds(30)).await;
    let mut left_to_others = 0;
    while let Ok(Some(event)) = tokio::time::timeout(seconds(1), events.next()).await {
        let still_running = matches!(event.kind, EventKind::Skipped { reason: SkipReason::StillRunning, .. });
        left_to_others += u32::from(still_running);
    }
    assert_eq!(left_to_others, 1);
    fleet.run_for(seconds(120)).await;
    assert_eq!(outcomes(&fleet).await, [(1, RunOutcome::Succeeded)]);
}
