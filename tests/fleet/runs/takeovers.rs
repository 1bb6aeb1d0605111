use std::sync::atomic::{AtomicUsize, Ordering};

use jobs::events::EventKind;
use jobs::history::RunOutcome;
use jobs::testing::Fleet;
use jobs::{Job, JobBuilder};

use crate::common::{HOUR, Heard, Notes, job, outcomes, runner, secs};

fn hourly() -> JobBuilder {
    job("1h", 30).retry_on_crash(1)
}

async fn crash_the_runner(fleet: &Fleet) -> usize {
    let running = runner(fleet).await;
    fleet.server(running).crash();
    running
}

#[tokio::test(start_paused = true)]
async fn another_server_takes_a_crashed_runs_tick_over_when_its_lease_ends() {
    let notes = Notes::new();
    let fleet = Fleet::of(3).job(notes.lasting(hourly(), 60)).start().await.unwrap();
    let heard: Vec<_> = fleet.servers().iter().map(Heard::from).collect();
    fleet.run_for(secs(HOUR + 5)).await;
    crash_the_runner(&fleet).await;
    fleet.run_for(secs(300)).await;
    let [first, second] = &notes.starts()[..] else { panic!("{:?}", notes.starts()) };
    assert_eq!((second.at, second.tick, second.attempt), (HOUR + 30, Some(HOUR), 2));
    assert!(second.fence > first.fence && second.server != first.server);
    assert_eq!(outcomes(&fleet).await, [RunOutcome::Crashed, RunOutcome::Succeeded]);
    let told =
        |heard: &Heard| heard.count(|kind| matches!(kind, EventKind::TakenOver(run) if run.attempt == 2));
    assert_eq!(heard.iter().map(told).sum::<usize>(), 1);
}

#[tokio::test(start_paused = true)]
async fn crash_ends_its_tick_by_default() {
    let notes = Notes::new();
    let fleet = Fleet::of(3).job(notes.lasting(job("1h", 30), 60)).start().await.unwrap();
    fleet.run_for(secs(HOUR + 5)).await;
    crash_the_runner(&fleet).await;
    fleet.run_for(secs(300)).await;
    assert_eq!(notes.attempts(), [1]);
    assert_eq!(outcomes(&fleet).await, [RunOutcome::Crashed], "though nobody has claimed since");
}

async fn attempts_after(
    ends: fn() -> Result<(), String>,
    plan: JobBuilder,
    expected: RunOutcome,
) -> Vec<u32> {
    let notes = Notes::new();
    let ending = notes.job(plan, move |_| async move {
        tokio::time::sleep(secs(20)).await;
        ends()
    });
    let fleet = Fleet::of(3).job(ending).start().await.unwrap();
    fleet.run_for(secs(HOUR + 600)).await;
    assert_eq!(outcomes(&fleet).await[0], expected);
    notes.attempts()
}

#[tokio::test(start_paused = true)]
async fn a_run_that_failed_panicked_or_timed_out_is_finished() {
    assert_eq!(attempts_after(|| Err("no".to_owned()), hourly(), RunOutcome::Failed).await, [1]);
    assert_eq!(attempts_after(|| panic!("no"), hourly(), RunOutcome::Panicked).await, [1]);
    let hasty = hourly().timeout(secs(10));
    assert_eq!(attempts_after(|| Ok(()), hasty, RunOutcome::TimedOut).await, [1]);
    assert_eq!(attempts_after(|| Ok(()), hourly(), RunOutcome::Succeeded).await, [1]);
}

#[tokio::test(start_paused = true)]
async fn takeovers_of_a_tick_are_limited() {
    let notes = Notes::new();
    let fleet = Fleet::of(6).job(notes.lasting(job("1h", 30).retry_on_crash(2), 60)).start().await.unwrap();
    fleet.run_for(secs(HOUR + 5)).await;
    for _ in 0..3 {
        crash_the_runner(&fleet).await;
        fleet.run_for(secs(31)).await;
    }
    fleet.run_for(secs(600)).await;
    assert_eq!(notes.attempts(), [1, 2, 3]);
    assert_eq!(outcomes(&fleet).await, [RunOutcome::Crashed; 3]);
    let fences: Vec<_> = notes.starts().iter().map(|start| start.fence).collect();
    assert!(fences.is_sorted_by(|one, other| one < other), "{fences:?}");
    fleet.run_for(secs(HOUR)).await;
    assert_eq!(notes.ticks().last(), Some(&(2 * HOUR)), "the next tick begins anew");
}

#[tokio::test(start_paused = true)]
async fn pause_postpones_a_takeover() {
    let notes = Notes::new();
    let fleet = Fleet::of(3).job(notes.lasting(hourly(), 60)).start().await.unwrap();
    fleet.run_for(secs(HOUR + 5)).await;
    let crashed = crash_the_runner(&fleet).await;
    let alive = fleet.server((crashed + 1) % 3);
    alive.pause("job").await.unwrap();
    fleet.run_for(secs(1200)).await;
    assert_eq!(notes.attempts(), [1]);
    alive.resume("job").await.unwrap();
    fleet.run_for(secs(31)).await;
    assert_eq!(notes.attempts(), [1, 2]);
    assert_eq!(notes.ticks(), [HOUR, HOUR]);
}

#[tokio::test(start_paused = true)]
async fn a_tick_is_taken_over_although_later_ones_were_skipped_meanwhile() {
    let notes = Notes::new();
    let plan = job("60s", 30).retry_on_crash(1);
    let fleet = Fleet::of(2).job(notes.lasting(plan, 600)).start().await.unwrap();
    fleet.run_for(secs(255)).await;
    assert_eq!(fleet.history("job").await.skips.len(), 3, "ticks 120 to 240");
    crash_the_runner(&fleet).await;
    fleet.run_for(secs(35)).await;
    assert_eq!(notes.times(), [(60, 60), (280, 60)]);
    assert_eq!(notes.attempts(), [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_newer_tick_that_was_started_ends_the_wait_for_an_older_one() {
    let notes = Notes::new();
    let plan = job("20s", 15).retry_on_crash(1);
    let fleet = Fleet::of(2).job(notes.lasting(plan, 3)).start().await.unwrap();
    fleet.run_for(secs(21)).await;
    fleet.server(runner(&fleet).await).cut_off(true);
    fleet.run_for(secs(60)).await;
    assert_eq!(notes.ticks()[..3], [20, 20, 40], "its end was never told, so it was taken over");
    assert_eq!(notes.most_at_once(), 1);
}

#[tokio::test(start_paused = true)]
async fn manual_run_is_not_taken_over() {
    let notes = Notes::new();
    let fleet = Fleet::of(2).job(notes.lasting(hourly(), 60)).start().await.unwrap();
    let asked = tokio::time::timeout(secs(5), fleet.server(0).run_now("job")).await;
    assert!(asked.is_err(), "it takes a minute");
    fleet.server(0).crash();
    fleet.run_for(secs(600)).await;
    assert_eq!(notes.starts().len(), 1);
    assert_eq!(outcomes(&fleet).await, [RunOutcome::Crashed]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_was_busy_for_all_of_a_ticks_grace_can_still_take_it_over() {
    let notes = Notes::new();
    let hog = || Job::builder("hog").run(|_| tokio::time::sleep(secs(300))).build().unwrap();
    let fleet = Fleet::of(2).max_concurrent(1).job(notes.lasting(hourly(), 120)).job(hog);
    let fleet = fleet.start().await.unwrap();
    fleet.run_for(secs(HOUR - 60)).await;
    assert!(tokio::time::timeout(secs(1), fleet.server(0).run_now("hog")).await.is_err());
    fleet.run_for(secs(80)).await;
    assert_eq!(crash_the_runner(&fleet).await, 1);
    fleet.run_for(secs(600)).await;
    let [_, second] = &notes.starts()[..] else { panic!("{:?}", notes.starts()) };
    assert_eq!(
        (second.at, second.tick, second.attempt),
        (HOUR + 240, Some(HOUR), 2),
        "as soon as it has a place"
    );
    assert_eq!(second.server, fleet.server(0).server_id());
    assert_eq!(outcomes(&fleet).await, [RunOutcome::Crashed, RunOutcome::Succeeded]);
}

/// The first server has the first policy, all later ones the second.
async fn deploy(notes: &Notes, first: JobBuilder, then: JobBuilder) -> Fleet {
    let (old, new, made) = (notes.lasting(first, 60), notes.lasting(then, 60), AtomicUsize::new(0));
    let job = move || if made.fetch_add(1, Ordering::SeqCst) == 0 { old() } else { new() };
    let mut fleet = Fleet::of(1).job(job).start().await.unwrap();
    fleet.run_for(secs(HOUR + 5)).await;
    fleet.add_server().await.unwrap();
    fleet
}

#[tokio::test(start_paused = true)]
async fn tick_that_was_started_without_takeovers_is_not_taken_over_after_a_deploy_that_allows_them() {
    let notes = Notes::new();
    let fleet = deploy(&notes, job("1h", 30), hourly()).await;
    fleet.server(0).crash();
    fleet.run_for(secs(600)).await;
    assert_eq!(notes.attempts(), [1]);
    fleet.run_for(secs(HOUR)).await;
    assert_eq!(notes.ticks(), [HOUR, 2 * HOUR]);
}

#[tokio::test(start_paused = true)]
async fn tick_is_not_taken_over_more_often_than_it_was_started_for() {
    let notes = Notes::new();
    let mut fleet = deploy(&notes, hourly(), job("1h", 30).retry_on_crash(5)).await;
    fleet.add_server().await.unwrap();
    fleet.server(0).crash();
    fleet.run_for(secs(31)).await;
    assert_eq!(notes.attempts(), [1, 2]);
    crash_the_runner(&fleet).await;
    fleet.run_for(secs(600)).await;
    assert_eq!(notes.attempts(), [1, 2], "one takeover, by the policy of its start");
}
