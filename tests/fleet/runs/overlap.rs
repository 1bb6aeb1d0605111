use jobs::Job;
use jobs::events::{EventKind, SkipReason};
use jobs::history::Skip;
use jobs::schedule::{Missed, OnLost, Overlap};
use jobs::testing::Fleet;

use crate::common::{HOUR, Heard, NOON, Notes, job, runner, secs};

#[tokio::test(start_paused = true)]
async fn a_queued_tick_starts_at_once_when_the_run_ends_on_the_same_server() {
    let notes = Notes::new();
    let queueing = notes.lasting(job("60s", 30).overlap(Overlap::Queue), 80);
    let fleet = Fleet::of(1).job(queueing).start().await.unwrap();
    fleet.run_for(secs(235)).await;
    assert_eq!(notes.times(), [(60, 60), (140, 120), (220, 180)]);
}

#[tokio::test(start_paused = true)]
async fn skip_policy_skips_the_same_tick_on_every_server() {
    let notes = Notes::new();
    let fleet = Fleet::of(3).job(notes.lasting(job("60s", 30), 80)).start().await.unwrap();
    fleet.run_for(secs(235)).await;
    assert_eq!(notes.times(), [(60, 60), (180, 180)]);
    let skips = fleet.history("job").await.skips;
    let skips: Vec<_> = skips.iter().map(|skip| (skip.tick.since(NOON).as_secs(), skip.reason)).collect();
    assert_eq!(skips, [(120, Skip::Held)]);
}

#[tokio::test(start_paused = true)]
async fn queued_tick_starts_on_another_server_when_the_lease_ends() {
    let notes = Notes::new();
    let queueing = notes.lasting(job("60s", 30).overlap(Overlap::Queue), 500);
    let fleet = Fleet::of(3).job(queueing).start().await.unwrap();
    fleet.run_for(secs(121)).await;
    let crashed = runner(&fleet).await;
    fleet.server(crashed).crash();
    fleet.run_for(secs(40)).await;
    let second = &notes.starts()[1];
    assert_eq!((second.at, second.tick, second.attempt), (150, Some(120), 1), "extended at 120, for 30 s");
    assert_ne!(second.server, fleet.server(crashed).server_id());
    assert_eq!(notes.starts().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn queued_tick_is_skipped_when_its_grace_is_over() {
    let notes = Notes::new();
    let queueing = job("60s", 30).overlap(Overlap::Queue).grace(secs(20));
    let fleet = Fleet::of(1).job(notes.lasting(queueing, 100)).start().await.unwrap();
    let heard = Heard::from(fleet.server(0));
    fleet.run_for(secs(200)).await;
    assert_eq!(notes.times(), [(60, 60), (180, 180)]);
    assert!(matches!(heard.skips()[..], [SkipReason::Held(_)]), "{:?}", heard.skips());
    assert_eq!(heard.count(|kind| matches!(kind, EventKind::Overdue { .. })), 1);
}

#[tokio::test(start_paused = true)]
async fn a_queued_tick_can_start_until_its_grace_is_over() {
    let notes = Notes::new();
    let queueing = job("60s", 30).overlap(Overlap::Queue).grace(secs(20));
    let fleet = Fleet::of(1).job(notes.lasting(queueing, 79)).start().await.unwrap();
    fleet.run_for(secs(170)).await;
    assert_eq!(notes.times(), [(60, 60), (139, 120)]);
}

#[tokio::test(start_paused = true)]
async fn only_the_newest_tick_waits() {
    let notes = Notes::new();
    let queueing = job("10s", 30).overlap(Overlap::Queue).grace(secs(HOUR));
    let fleet = Fleet::of(2).job(notes.lasting(queueing, 35)).start().await.unwrap();
    fleet.run_for(secs(75)).await;
    assert_eq!(notes.times(), [(10, 10), (45, 40)]);
}

#[tokio::test(start_paused = true)]
async fn queued_ticks_never_run_two_at_once() {
    let notes = Notes::new();
    let queueing = job("10s", 3).overlap(Overlap::Queue).grace(secs(60));
    let fleet = Fleet::of(5).job(notes.lasting(queueing, 13)).start().await.unwrap();
    for (number, server) in fleet.servers().iter().enumerate() {
        server.set_latency(std::time::Duration::from_millis(7 * number as u64));
    }
    fleet.run_for(secs(HOUR)).await;
    assert_eq!(notes.most_at_once(), 1);
    let ticks = notes.ticks();
    assert!(ticks.len() > 200, "one after the other, {} runs", ticks.len());
    assert!(ticks.is_sorted_by(|one, other| one < other), "no tick twice");
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_does_not_wait_for_a_queued_tick() {
    let notes = Notes::new();
    let queueing = job("60s", 30).overlap(Overlap::Queue);
    let mut fleet = Fleet::of(1).job(notes.lasting(queueing, 65)).start().await.unwrap();
    fleet.run_for(secs(121)).await;
    fleet.shut_down(0).await;
    assert_eq!(fleet.now().since(NOON), secs(125), "the run that went on could end");
    assert_eq!(notes.ticks(), [60]);
}

#[tokio::test(start_paused = true)]
async fn the_first_tick_of_a_new_job_can_wait_like_any_other() {
    let notes = Notes::new();
    let queueing = job("1h", 30).overlap(Overlap::Queue).grace(secs(1800));
    let fleet = Fleet::of(1).begins_at(NOON + secs(HOUR - 60)).job(notes.lasting(queueing, 300));
    let fleet = fleet.start().await.unwrap();
    let heard = Heard::from(fleet.server(0));
    assert!(
        tokio::time::timeout(secs(1), fleet.server(0).run_now("job")).await.is_err(),
        "it takes 5 minutes"
    );
    fleet.run_for(secs(1200)).await;
    let starts: Vec<_> = notes.starts().iter().map(|start| (start.at, start.tick)).collect();
    assert_eq!(starts, [(0, None), (300, Some(HOUR))], "{:?}", heard.all());
}

/// A fleet of one whose run of the first hour goes on without its lease until a minute after the second tick.
async fn with_a_run_that_lost_its_lease(notes: &Notes, overlap: Overlap) -> Fleet {
    let stubborn = job("1h", 10).overlap(overlap).on_lost(OnLost::Continue);
    let frequent = || Job::builder("frequent").every("10s").ttl(secs(10)).run(|_| async {}).build().unwrap();
    let fleet = Fleet::of(1).max_concurrent(2).job(notes.lasting(stubborn, HOUR + 60)).job(frequent);
    let fleet = fleet.start().await.unwrap();
    fleet.run_for(secs(HOUR + 10)).await;
    fleet.cut_off_the_store(true);
    fleet.run_for(secs(30)).await;
    fleet.cut_off_the_store(false);
    fleet
}

#[tokio::test(start_paused = true)]
async fn queued_tick_waits_for_a_run_of_its_own_server_that_lost_its_lease() {
    let notes = Notes::new();
    let fleet = with_a_run_that_lost_its_lease(&notes, Overlap::Queue).await;
    fleet.run_for(secs(HOUR + 600)).await;
    assert_eq!(notes.times(), [(HOUR, HOUR), (2 * HOUR + 60, 2 * HOUR)]);
    assert_eq!(notes.most_at_once(), 1);
}

#[tokio::test(start_paused = true)]
async fn skip_policy_does_not_wait_for_a_run_without_a_lease() {
    let notes = Notes::new();
    let fleet = with_a_run_that_lost_its_lease(&notes, Overlap::Skip).await;
    let heard = Heard::from(fleet.server(0));
    fleet.run_for(secs(HOUR + 600)).await;
    assert_eq!(notes.ticks(), [HOUR]);
    assert_eq!(heard.skips(), [SkipReason::StillRunning]);
}

#[tokio::test(start_paused = true)]
async fn queued_tick_that_waits_for_a_run_without_a_lease_takes_no_capacity_from_other_jobs() {
    let notes = Notes::new();
    let fleet = with_a_run_that_lost_its_lease(&notes, Overlap::Queue).await;
    fleet.run_for(secs(HOUR - 35)).await;
    let before = fleet.history("frequent").await.stats.successes;
    fleet.run_for(secs(50)).await;
    assert_eq!(notes.going_on(), 1, "and the next tick waits for it");
    assert_eq!(fleet.history("frequent").await.stats.successes - before, 5);
}

#[tokio::test(start_paused = true)]
async fn newest_tick_alone_waits_for_a_run_without_a_lease() {
    let stubborn = job("60s", 10).keep_alive(false).on_lost(OnLost::Continue);
    let plans = [
        stubborn.clone().overlap(Overlap::Queue).grace(secs(HOUR)),
        stubborn.overlap(Overlap::Queue).missed(Missed::RunOnce),
    ];
    for plan in plans {
        let notes = Notes::new();
        let fleet = Fleet::of(1).job(notes.lasting(plan, 200)).start().await.unwrap();
        fleet.run_for(secs(300)).await;
        assert_eq!(notes.times(), [(60, 60), (260, 240)]);
    }
}
