use jobs::history::Skip;
use std::sync::atomic::{AtomicUsize, Ordering};

use jobs::JobBuilder;
use jobs::events::{EventKind, SkipReason};
use jobs::schedule::Missed;
use jobs::testing::{Fleet, TestServer};

use crate::common::{HOUR, Heard, NOON, Notes, job, secs};

fn hourly() -> JobBuilder {
    job("1h", 60).missed(Missed::RunOnce)
}

fn crash_all(fleet: &Fleet) {
    fleet.servers().iter().for_each(TestServer::crash);
}

/// A fleet is gone from half past one until half past six.
async fn after_five_hours_without_a_server(notes: &Notes, plan: JobBuilder) -> Fleet {
    let fleet = Fleet::of(3).job(notes.lasting(plan, 5)).start().await.unwrap();
    fleet.run_for(secs(HOUR * 3 / 2)).await;
    crash_all(&fleet);
    fleet.run_for(secs(5 * HOUR)).await;
    fleet
}

#[tokio::test(start_paused = true)]
async fn newest_missed_tick_runs_once_after_downtime_of_the_fleet() {
    let notes = Notes::new();
    let mut fleet = after_five_hours_without_a_server(&notes, hourly()).await;
    for _ in 0..5 {
        fleet.add_server().await.unwrap();
    }
    fleet.run_for(secs(HOUR)).await;
    let half_past_six = HOUR * 13 / 2;
    assert_eq!(notes.times(), [(HOUR, HOUR), (half_past_six, 6 * HOUR), (7 * HOUR, 7 * HOUR)]);
    assert_eq!(notes.attempts(), [1, 1, 1]);
}

#[tokio::test(start_paused = true)]
async fn missed_ticks_are_counted_and_do_not_run_by_default() {
    let notes = Notes::new();
    let mut fleet = after_five_hours_without_a_server(&notes, job("1h", 60)).await;
    let added = fleet.add_server().await.unwrap();
    let heard = Heard::from(fleet.server(added));
    fleet.run_for(secs(HOUR)).await;
    assert_eq!(notes.ticks(), [HOUR, 7 * HOUR]);
    let at = |hour: u64| NOON + secs(hour * HOUR);
    let missed = EventKind::Missed { count: 5, first: at(2), won: at(7) };
    assert!(heard.all().contains(&missed), "{:?}", heard.all());
}

#[tokio::test(start_paused = true)]
async fn server_that_runs_a_missed_tick_reports_how_many_were_missed_before_it() {
    let notes = Notes::new();
    let mut fleet = after_five_hours_without_a_server(&notes, hourly()).await;
    let added = fleet.add_server().await.unwrap();
    let heard = Heard::from(fleet.server(added));
    fleet.run_for(secs(2 * HOUR)).await;
    let at = |hour: u64| NOON + secs(hour * HOUR);
    let missed: Vec<_> =
        heard.all().into_iter().filter(|kind| matches!(kind, EventKind::Missed { .. })).collect();
    assert_eq!(missed, [EventKind::Missed { count: 4, first: at(2), won: at(6) }], "and nothing later");
}

#[tokio::test(start_paused = true)]
async fn newest_missed_tick_runs_once_after_downtime_of_the_store() {
    let notes = Notes::new();
    let fleet = Fleet::of(3).job(notes.lasting(hourly(), 5)).start().await.unwrap();
    fleet.run_for(secs(HOUR * 3 / 2)).await;
    fleet.cut_off_the_store(true);
    fleet.run_for(secs(2 * HOUR)).await;
    fleet.cut_off_the_store(false);
    fleet.run_for(secs(HOUR)).await;
    assert_eq!(notes.ticks(), [HOUR, 3 * HOUR, 4 * HOUR]);
    let late = notes.times()[1].0 - HOUR * 7 / 2;
    assert!(late <= 3, "{late} s after the store was back");
}

#[tokio::test(start_paused = true)]
async fn missed_ticks_do_not_run_by_default_after_downtime_of_the_store() {
    let notes = Notes::new();
    let fleet = Fleet::of(3).job(notes.lasting(job("1h", 60), 5)).start().await.unwrap();
    fleet.run_for(secs(HOUR * 3 / 2)).await;
    fleet.cut_off_the_store(true);
    fleet.run_for(secs(2 * HOUR)).await;
    fleet.cut_off_the_store(false);
    fleet.run_for(secs(HOUR)).await;
    assert_eq!(notes.ticks(), [HOUR, 4 * HOUR]);
}

#[tokio::test(start_paused = true)]
async fn newest_missed_tick_runs_once_after_its_machine_was_suspended() {
    let notes = Notes::new();
    let fleet = Fleet::of(1).job(notes.lasting(hourly(), 5)).start().await.unwrap();
    fleet.run_for(secs(HOUR * 3 / 2)).await;
    fleet.server(0).freeze();
    fleet.run_for(secs(3 * HOUR)).await;
    fleet.server(0).thaw();
    fleet.run_for(secs(HOUR)).await;
    assert_eq!(notes.times(), [(HOUR, HOUR), (HOUR * 9 / 2, 4 * HOUR), (5 * HOUR, 5 * HOUR)]);
}

#[tokio::test(start_paused = true)]
async fn a_job_has_missed_nothing_before_it_was_first_registered() {
    let notes = Notes::new();
    let fleet = Fleet::of(3).job(notes.lasting(hourly(), 5)).begins_at(NOON + secs(1800));
    let fleet = fleet.start().await.unwrap();
    let heard = Heard::from(fleet.server(0));
    fleet.run_for(secs(HOUR)).await;
    assert_eq!(notes.ticks(), [HOUR]);
    assert_eq!(heard.count(|kind| matches!(kind, EventKind::Missed { .. } | EventKind::Overdue { .. })), 0);
}

#[tokio::test(start_paused = true)]
async fn a_tick_that_was_skipped_in_a_pause_was_not_missed() {
    let notes = Notes::new();
    let mut fleet = Fleet::of(2).job(notes.lasting(hourly(), 5)).start().await.unwrap();
    fleet.run_for(secs(HOUR * 3 / 2)).await;
    fleet.server(0).pause("job").await.unwrap();
    fleet.run_for(secs(HOUR)).await;
    crash_all(&fleet);
    let added = fleet.add_server().await.unwrap();
    fleet.server(added).resume("job").await.unwrap();
    fleet.run_for(secs(HOUR)).await;
    assert_eq!(notes.ticks(), [HOUR, 3 * HOUR]);
}

#[tokio::test(start_paused = true)]
async fn tick_that_fell_into_a_pause_without_servers_is_reported_and_not_run() {
    let notes = Notes::new();
    let mut fleet = Fleet::of(2).job(notes.lasting(hourly(), 5)).start().await.unwrap();
    fleet.run_for(secs(HOUR * 3 / 2)).await;
    fleet.server(0).pause("job").await.unwrap();
    crash_all(&fleet);
    fleet.run_for(secs(3 * HOUR)).await;
    // Before any server could claim, and skip, what passed meanwhile: no record shows why it did not run.
    fleet.server(0).resume("job").await.unwrap();
    let added = fleet.add_server().await.unwrap();
    let heard = Heard::from(fleet.server(added));
    fleet.run_for(secs(HOUR)).await;
    assert_eq!(notes.ticks(), [HOUR, 5 * HOUR]);
    let missed = |kind: &EventKind| matches!(kind, EventKind::Missed { count: 3, first, .. } if *first == NOON + secs(2 * HOUR));
    assert_eq!(heard.count(missed), 1, "{:?}", heard.all());
}

#[tokio::test(start_paused = true)]
async fn a_tick_that_was_skipped_for_a_run_was_not_missed() {
    let notes = Notes::new();
    let mut fleet = Fleet::of(1).job(notes.lasting(hourly(), 2 * HOUR)).start().await.unwrap();
    fleet.run_for(secs(2 * HOUR + 600)).await;
    crash_all(&fleet);
    fleet.run_for(secs(600)).await;
    fleet.add_server().await.unwrap();
    fleet.run_for(secs(600)).await;
    assert_eq!(notes.ticks(), [HOUR]);
}

#[tokio::test(start_paused = true)]
async fn a_late_tick_waits_for_a_held_key() {
    let notes = Notes::new();
    let plan = job("1h", 80 * 60).grace(secs(60)).missed(Missed::RunOnce);
    let mut fleet = Fleet::of(1).job(notes.lasting(plan, 600)).start().await.unwrap();
    fleet.run_for(secs(HOUR + 10)).await;
    crash_all(&fleet);
    fleet.run_for(secs(HOUR + 590)).await;
    fleet.add_server().await.unwrap();
    fleet.run_for(secs(3000)).await;
    assert_eq!(notes.times(), [(HOUR, HOUR), (HOUR + 80 * 60, 2 * HOUR)]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_still_asks_for_a_tick_does_not_rerun_it_on_a_wiped_store() {
    let notes = Notes::new();
    let fleet = Fleet::of(2).job(notes.lasting(hourly(), 5)).start().await.unwrap();
    fleet.run_for(secs(HOUR - 10)).await;
    fleet.server(1).cut_off(true);
    fleet.run_for(secs(600)).await;
    assert_eq!(notes.ticks(), [HOUR], "the other server ran it");
    fleet.wipe("job");
    fleet.server(1).cut_off(false);
    fleet.run_for(secs(600)).await;
    assert_eq!(notes.ticks(), [HOUR]);
}

#[tokio::test(start_paused = true)]
async fn a_wiped_store_does_not_rerun_a_tick() {
    let notes = Notes::new();
    let mut fleet = Fleet::of(2).job(notes.lasting(hourly(), 5)).start().await.unwrap();
    fleet.run_for(secs(HOUR + 600)).await;
    fleet.wipe("job");
    let added = fleet.add_server().await.unwrap();
    let heard = Heard::from(fleet.server(added));
    fleet.run_for(secs(HOUR)).await;
    assert_eq!(notes.ticks(), [HOUR, 2 * HOUR]);
    let unknown =
        |kind: &EventKind| matches!(kind, EventKind::Skipped { reason: SkipReason::Unregistered, .. });
    assert_eq!(heard.count(unknown), 1, "{:?}", heard.all());
}

#[tokio::test(start_paused = true)]
async fn tick_that_was_missed_under_skip_does_not_run_after_a_deploy_with_run_once() {
    let notes = Notes::new();
    let (old, new) = (notes.lasting(job("1h", 60), 5), notes.lasting(hourly(), 5));
    let made = AtomicUsize::new(0);
    let job = move || if made.fetch_add(1, Ordering::SeqCst) == 0 { old() } else { new() };
    let mut fleet = Fleet::of(1).job(job).start().await.unwrap();
    fleet.run_for(secs(HOUR * 3 / 2)).await;
    crash_all(&fleet);
    fleet.run_for(secs(2 * HOUR)).await;
    fleet.add_server().await.unwrap();
    fleet.run_for(secs(HOUR)).await;
    assert_eq!(notes.ticks(), [HOUR, 4 * HOUR], "tick 3 was missed when missed ticks were skipped");
    crash_all(&fleet);
    fleet.run_for(secs(2 * HOUR)).await;
    fleet.add_server().await.unwrap();
    fleet.run_for(secs(60)).await;
    assert_eq!(notes.ticks(), [HOUR, 4 * HOUR, 6 * HOUR], "tick 6 was missed under the new policy");
}

fn at(hour: u64) -> jobs::Timestamp {
    NOON + secs(hour * HOUR)
}

fn missed(heard: &Heard) -> Vec<EventKind> {
    heard.all().into_iter().filter(|kind| matches!(kind, EventKind::Missed { .. })).collect()
}

#[tokio::test(start_paused = true)]
async fn missed_ticks_are_reported_although_the_tick_after_them_was_skipped() {
    let notes = Notes::new();
    // A manual run takes an hour, so that a tick falls into it.
    let lasting = |run: jobs::Run| tokio::time::sleep(secs(if run.tick().is_some() { 5 } else { HOUR }));
    let mut fleet = Fleet::of(1).job(notes.job(job("1h", 60), lasting)).start().await.unwrap();
    fleet.run_for(secs(HOUR * 3 / 2)).await;
    crash_all(&fleet);
    fleet.run_for(secs(4 * HOUR)).await;
    let added = fleet.add_server().await.unwrap();
    let heard = Heard::from(fleet.server(added));
    let asked = tokio::time::timeout(secs(HOUR - 60), fleet.server(added).run_now("job")).await;
    assert!(asked.is_err(), "it takes an hour");
    let skips: Vec<_> =
        fleet.history("job").await.skips.into_iter().map(|skip| (skip.reason, skip.tick)).collect();
    assert_eq!(skips, [(Skip::Held, at(6)), (Skip::Missed, at(2))]);
    assert_eq!(missed(&heard), []);
    fleet.run_for(secs(HOUR)).await;
    assert_eq!(missed(&heard), [EventKind::Missed { count: 4, first: at(2), won: at(6) }]);
    fleet.run_for(secs(2 * HOUR)).await;
    assert_eq!(missed(&heard).len(), 1, "once");
}

#[tokio::test(start_paused = true)]
async fn missed_ticks_are_reported_although_the_reply_to_the_next_claim_was_lost() {
    let notes = Notes::new();
    let fleet = Fleet::of(1).job(notes.lasting(job("1h", 60), 5)).start().await.unwrap();
    let heard = Heard::from(fleet.server(0));
    fleet.run_for(secs(HOUR * 3 / 2)).await;
    fleet.server(0).cut_off(true);
    fleet.run_for(secs(3 * HOUR)).await;
    fleet.server(0).cut_off(false);
    fleet.run_for(secs(HOUR / 2 - 1)).await;
    fleet.server(0).lose_replies(true);
    fleet.run_for(secs(1200)).await;
    fleet.server(0).lose_replies(false);
    fleet.run_for(secs(1200)).await;
    assert_eq!(notes.ticks(), [HOUR], "tick 5 was won, and its server was not told in time");
    assert_eq!(missed(&heard), []);
    fleet.run_for(secs(HOUR)).await;
    assert_eq!(notes.ticks(), [HOUR, 6 * HOUR]);
    assert_eq!(missed(&heard), [EventKind::Missed { count: 3, first: at(2), won: at(5) }]);
}

#[tokio::test(start_paused = true)]
async fn missed_ticks_are_reported_again_if_the_server_that_reported_them_crashed() {
    let notes = Notes::new();
    let mut fleet = after_five_hours_without_a_server(&notes, job("1h", 60)).await;
    let first = fleet.add_server().await.unwrap();
    fleet.run_for(secs(HOUR / 2 + 1)).await;
    assert_eq!(notes.starts().last().unwrap().server, fleet.server(first).server_id());
    fleet.server(first).crash();
    let second = fleet.add_server().await.unwrap();
    let heard = Heard::from(fleet.server(second));
    fleet.run_for(secs(HOUR)).await;
    assert_eq!(notes.ticks(), [HOUR, 7 * HOUR, 8 * HOUR]);
    assert_eq!(missed(&heard), [EventKind::Missed { count: 5, first: at(2), won: at(7) }]);
    fleet.run_for(secs(HOUR)).await;
    assert_eq!(missed(&heard).len(), 1, "and then no more");
}
