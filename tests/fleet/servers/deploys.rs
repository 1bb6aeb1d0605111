use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use jobs::Job;
use jobs::events::EventKind;
use jobs::schedule::{Missed, Overlap};
use jobs::testing::Fleet;

use crate::common::{HOUR, Heard, NOON, Notes, job, secs};

/// The first servers have the first schedule, all later ones the second.
fn changing(notes: &Notes, first: (usize, &str), then: &str) -> impl Fn() -> Job + Send + Sync + use<> {
    let old = notes.lasting(job(first.1, 20).missed(Missed::RunOnce), 5);
    let new = notes.lasting(job(then, 20).missed(Missed::RunOnce), 5);
    let (made, old_servers) = (AtomicUsize::new(0), first.0);
    move || if made.fetch_add(1, Ordering::SeqCst) < old_servers { old() } else { new() }
}

fn differing(heard: &Heard) -> usize {
    heard.count(|kind| matches!(kind, EventKind::SchedulesDiffer { .. }))
}

/// Two servers with the old schedule; two with the new one join after an hour, and after another the old ones go.
async fn deploy(old: &str, new: &str) -> (Notes, Vec<Heard>) {
    let notes = Notes::new();
    let mut fleet = Fleet::of(2).job(changing(&notes, (2, old), new)).start().await.unwrap();
    fleet.run_for(secs(HOUR + 7)).await;
    for _ in 0..2 {
        fleet.add_server().await.unwrap();
    }
    let heard = fleet.servers().iter().map(Heard::from).collect();
    fleet.run_for(secs(HOUR)).await;
    fleet.shut_down(0).await;
    fleet.shut_down(0).await;
    fleet.run_for(secs(HOUR)).await;
    (notes, heard)
}

fn ticks_between(from: u64, to: u64, every: &[u64]) -> Vec<u64> {
    (from + 1..=to).filter(|second| every.iter().any(|every| second % every == 0)).collect()
}

async fn each_tick_of_both_starts_once(old: &str, new: &str, old_gap: u64, new_gap: u64) {
    let (notes, heard) = deploy(old, new).await;
    let ticks = notes.ticks();
    assert_eq!(ticks.iter().collect::<HashSet<_>>().len(), ticks.len(), "a tick started twice: {ticks:?}");
    let mut expected = ticks_between(0, HOUR, &[old_gap]);
    expected.extend(ticks_between(HOUR, 2 * HOUR, &[old_gap, new_gap]));
    expected.extend(ticks_between(2 * HOUR, 3 * HOUR, &[new_gap]));
    assert_eq!(ticks, expected);
    assert_eq!(heard.iter().map(differing).collect::<Vec<_>>()[..3], [1, 1, 1], "each says so once");
}

#[tokio::test(start_paused = true)]
async fn old_and_new_cron_schedules_side_by_side_start_each_tick_once() {
    each_tick_of_both_starts_once("*/10 * * * *", "*/15 * * * *", 600, 900).await;
}

#[tokio::test(start_paused = true)]
async fn old_and_new_intervals_side_by_side_start_each_tick_once() {
    each_tick_of_both_starts_once("10m", "4m", 600, 240).await;
}

#[tokio::test(start_paused = true)]
async fn changed_schedule_is_reported_with_both_schedules_and_the_other_server() {
    let (_, heard) = deploy("*/10 * * * *", "*/15 * * * *").await;
    let told = |heard: &Heard| {
        let found = heard.all().into_iter().find_map(|kind| match kind {
            EventKind::SchedulesDiffer { here, there, server } => Some((here, there, server)),
            _ => None,
        });
        found.expect("it is told")
    };
    let (old, new) = (told(&heard[0]), told(&heard[2]));
    assert_eq!((&old.0, &old.1), (&new.1, &new.0));
    assert!(old.0.contains("*/10") && old.1.contains("*/15"), "{old:?}");
    assert!(["server-2", "server-3"].contains(&old.2.as_str()), "{old:?}");
}

#[tokio::test(start_paused = true)]
async fn equal_schedules_are_not_reported() {
    let (_, heard) = deploy("*/10 * * * *", "*/10 * * * *").await;
    assert_eq!(heard.iter().map(differing).sum::<usize>(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_past_ticks_of_a_changed_schedule_were_not_missed() {
    let notes = Notes::new();
    let mut fleet = Fleet::of(1).job(changing(&notes, (1, "1h"), "20m")).start().await.unwrap();
    fleet.run_for(secs(HOUR + 1500)).await;
    let added = fleet.add_server().await.unwrap();
    let heard = Heard::from(fleet.server(added));
    fleet.run_for(secs(HOUR)).await;
    assert_eq!(notes.ticks(), [HOUR, HOUR + 2400, 2 * HOUR, 2 * HOUR + 1200]);
    assert_eq!(heard.count(|kind| matches!(kind, EventKind::Missed { .. })), 0);
}

#[tokio::test(start_paused = true)]
async fn outdated_server_does_not_catch_up_on_its_old_schedule() {
    let notes = Notes::new();
    let mut fleet = Fleet::of(1).job(changing(&notes, (1, "1h"), "24h")).start().await.unwrap();
    fleet.run_for(secs(HOUR + 600)).await;
    fleet.add_server().await.unwrap();
    fleet.run_for(secs(HOUR - 660)).await;
    fleet.server(0).cut_off(true);
    fleet.run_for(secs(600)).await;
    fleet.server(0).cut_off(false);
    fleet.run_for(secs(600)).await;
    assert_eq!(notes.ticks(), [HOUR], "what it missed since is no longer due");
}

/// The only server is replaced around an hour's tick; its successor starts so long after it.
async fn ticks_after_a_restart(late_secs: u64) -> Vec<(u64, u64)> {
    let notes = Notes::new();
    let mut fleet = Fleet::of(1).job(notes.lasting(job("1h", 60), 5)).start().await.unwrap();
    fleet.run_for(secs(2 * HOUR - 10)).await;
    fleet.shut_down(0).await;
    fleet.run_for(secs(10 + late_secs)).await;
    fleet.add_server().await.unwrap();
    fleet.run_for(secs(600)).await;
    notes.times()
}

#[tokio::test(start_paused = true)]
async fn a_tick_within_its_grace_at_start_is_picked_up() {
    assert_eq!(ticks_after_a_restart(20).await, [(HOUR, HOUR), (2 * HOUR + 20, 2 * HOUR)]);
    assert_eq!(ticks_after_a_restart(61).await, [(HOUR, HOUR)], "its grace is a ttl, 60 s");
}

#[tokio::test(start_paused = true)]
async fn a_new_job_does_not_begin_with_the_tick_before_its_start() {
    let notes = Notes::new();
    let fleet = Fleet::of(2).job(notes.lasting(job("1h", 60), 5)).begins_at(NOON + secs(20));
    let fleet = fleet.start().await.unwrap();
    fleet.run_for(secs(HOUR)).await;
    assert_eq!(notes.ticks(), [HOUR]);
}

#[tokio::test(start_paused = true)]
async fn jitter_delays_a_start_by_the_same_time_on_every_server_and_leaves_the_tick() {
    let notes = Notes::new();
    let plan = job("10m", 30).jitter(secs(300));
    let mut fleet = Fleet::of(3).job(notes.lasting(plan.clone(), 5)).start().await.unwrap();
    fleet.run_for(secs(6 * HOUR)).await;
    let delays: Vec<_> = notes.times().iter().map(|(at, tick)| at - tick).collect();
    assert!(delays.len() >= 35 && delays.iter().all(|delay| *delay < 300), "{delays:?}");
    assert!(delays.iter().collect::<HashSet<_>>().len() > 20, "they differ from tick to tick");
    assert!(notes.ticks().iter().all(|tick| tick % 600 == 0));

    let alone = Notes::new();
    fleet = Fleet::of(1).job(alone.lasting(plan, 5)).start().await.unwrap();
    fleet.run_for(secs(6 * HOUR)).await;
    assert_eq!(alone.times(), notes.times(), "whichever server it is");
}

#[tokio::test(start_paused = true)]
async fn a_rolling_restart_costs_no_tick_and_repeats_none() {
    let notes = Notes::new();
    let mut fleet = Fleet::of(3).job(notes.lasting(job("60s", 20), 5)).start().await.unwrap();
    for _ in 0..9 {
        fleet.run_for(secs(73)).await;
        fleet.add_server().await.unwrap();
        fleet.run_for(secs(31)).await;
        fleet.shut_down(0).await;
    }
    let last = fleet.now().since(NOON).as_secs() / 60 * 60;
    assert_eq!(notes.ticks(), ticks_between(0, last, &[60]));
}

#[tokio::test(start_paused = true)]
async fn the_first_tick_of_a_changed_schedule_can_wait_for_a_run_of_the_old_one() {
    let notes = Notes::new();
    let queueing = |every| job(every, 30).overlap(Overlap::Queue).grace(secs(1800));
    let old = notes.lasting(queueing("0 */2 * * *"), 2400);
    let new = notes.lasting(queueing("30 */2 * * *"), 5);
    let made = AtomicUsize::new(0);
    let changing = move || if made.fetch_add(1, Ordering::SeqCst) == 0 { old() } else { new() };
    let mut fleet = Fleet::of(1).begins_at(NOON + secs(HOUR)).job(changing).start().await.unwrap();
    fleet.run_for(secs(HOUR + 1500)).await;
    let added = fleet.add_server().await.unwrap();
    let heard = Heard::from(fleet.server(added));
    fleet.run_for(secs(3000)).await;
    let ticks = notes.ticks();
    assert_eq!(ticks, [2 * HOUR, 2 * HOUR + 1800], "{:?}", heard.all());
    let late = notes.starts()[1].at - (HOUR + 2400);
    assert!(late <= 31, "{late} s after the end of the run that was in its way");
    assert_eq!(notes.most_at_once(), 1);
}
