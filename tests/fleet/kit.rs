//! The test kit does what it says, so that a test with it means something.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use jobs::events::SkipReason;
use jobs::history::RunOutcome;
use jobs::schedule::Missed;
use jobs::testing::{Fleet, pretend_locked};
use jobs::{Health, Run, StartError, State, singleton_job};

use crate::common::{HOUR, Heard, NOON, Notes, job, outcomes, runner, secs};

#[derive(Clone, Default)]
struct Ledger(Arc<Mutex<Vec<i64>>>);

#[singleton_job(key = "kit-annotated", ttl = "30s", every = "1h")]
async fn annotated(State(ledger): State<Ledger>, run: Run) {
    jobs::assert_locked();
    assert_eq!(Run::current().expect("in a run").fence(), run.fence());
    tokio::task::yield_now().await;
    jobs::assert_locked();
    ledger.0.lock().unwrap().push(run.fence());
}

#[tokio::test]
#[should_panic(expected = "start_paused = true")]
async fn fleet_does_not_start_on_a_clock_that_is_not_paused() {
    drop(Fleet::of(2).annotated_job("kit-annotated").state(Ledger::default()).start().await);
}

#[test]
fn detached_run_has_the_tick_that_it_was_given() {
    let run = Run::detached_at("kit-annotated", NOON);
    assert_eq!((run.key(), run.tick(), run.fence()), ("kit-annotated", Some(NOON), 1));
    assert_eq!(Run::detached("kit-annotated").tick(), None);
}

#[tokio::test(start_paused = true)]
async fn annotated_jobs_run_once_per_tick_on_ten_servers() {
    let ledger = Ledger::default();
    let fleet = Fleet::of(10).annotated_job("kit-annotated").state(ledger.clone()).start().await.unwrap();
    fleet.run_for(secs(3 * HOUR + 10)).await;
    assert_eq!(ledger.0.lock().unwrap().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn all_annotated_jobs_of_the_binary_can_be_taken() {
    let ledger = Ledger::default();
    let fleet = Fleet::of(2).annotated_jobs().state(ledger.clone()).start().await.unwrap();
    fleet.run_for(secs(HOUR + 10)).await;
    assert_eq!(ledger.0.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_fleet_checks_its_jobs_as_a_server_does() {
    let missing = Fleet::of(1).annotated_job("kit-annotated").start().await.err().expect("no ledger");
    assert!(matches!(missing, StartError::Jobs(_)) && missing.to_string().contains("Ledger"), "{missing}");
    let unknown = Fleet::of(1).annotated_job("kit-anotated").start().await.err().expect("no such job");
    assert!(unknown.to_string().contains("kit-anotated"), "{unknown}");
    assert!(matches!(Fleet::of(1).start().await.err(), Some(StartError::NoJobs)));
}

#[tokio::test(start_paused = true)]
async fn a_crash_ends_a_run_where_it_waits_and_releases_nothing() {
    let notes = Notes::new();
    let fleet = Fleet::of(1).job(notes.lasting(job("1h", 30), 60)).start().await.unwrap();
    fleet.run_for(secs(HOUR + 5)).await;
    assert!(!fleet.server(0).has_crashed());
    fleet.server(0).crash();
    assert!(fleet.server(0).has_crashed());
    fleet.run_for(secs(1)).await;
    assert_eq!(notes.going_on(), 0);
    assert!(fleet.history("job").await.current.is_some(), "its lease lasts");
    fleet.server(0).thaw();
    fleet.run_for(secs(3 * HOUR)).await;
    assert_eq!(notes.starts().len(), 1, "it does not come back");
}

#[tokio::test(start_paused = true)]
async fn a_frozen_server_does_nothing_until_it_is_thawed() {
    let notes = Notes::new();
    let fleet = Fleet::of(1).job(notes.lasting(job("60s", 30), 10)).start().await.unwrap();
    fleet.run_for(secs(65)).await;
    fleet.server(0).freeze();
    fleet.run_for(secs(600)).await;
    assert_eq!((notes.starts().len(), notes.going_on()), (1, 1), "neither does its run end");
    fleet.server(0).thaw();
    fleet.run_for(secs(120)).await;
    assert_eq!(outcomes(&fleet).await[0], RunOutcome::LeaseLost);
    assert!(notes.ticks().len() >= 3, "{:?}", notes.ticks());
}

#[tokio::test(start_paused = true)]
async fn server_that_is_frozen_for_less_than_its_lease_continues_its_run() {
    let notes = Notes::new();
    let fleet = Fleet::of(2).job(notes.lasting(job("1h", 30), 60)).start().await.unwrap();
    fleet.run_for(secs(HOUR + 11)).await;
    let frozen = fleet.server(runner(&fleet).await);
    frozen.freeze();
    fleet.run_for(secs(20)).await;
    frozen.thaw();
    fleet.run_for(secs(60)).await;
    assert_eq!(outcomes(&fleet).await, [RunOutcome::Succeeded]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_cut_off_leaves_its_ticks_to_the_others() {
    let notes = Notes::new();
    let fleet = Fleet::of(2).job(notes.lasting(job("60s", 30), 5)).start().await.unwrap();
    fleet.server(0).cut_off(true);
    fleet.run_for(secs(310)).await;
    assert!(matches!(fleet.server(0).health(), Health::StoreUnavailable { .. }));
    assert_eq!(notes.starts().len(), 5);
    assert!(notes.starts().iter().all(|start| start.server == "server-1"));
}

#[tokio::test(start_paused = true)]
async fn a_request_whose_reply_is_lost_was_carried_out() {
    let notes = Notes::new();
    let fleet = Fleet::of(1).job(notes.lasting(job("1h", 30), 5)).start().await.unwrap();
    fleet.run_for(secs(HOUR - 1)).await;
    fleet.server(0).lose_replies(true);
    fleet.run_for(secs(2)).await;
    assert!(notes.starts().is_empty());
    let current = fleet.history("job").await.current.expect("the claim was won");
    fleet.server(0).lose_replies(false);
    fleet.run_for(secs(3)).await;
    assert_eq!(notes.starts()[0].fence, current.fence, "and is won again, not anew");
}

#[tokio::test(start_paused = true)]
async fn latency_delays_each_request() {
    let fleet = Fleet::of(1).job(Notes::new().lasting(job("1h", 30), 5)).start().await.unwrap();
    fleet.server(0).set_latency(Duration::from_millis(400));
    fleet.run_for(secs(1)).await;
    let before = fleet.now();
    fleet.server(0).history("job").await.unwrap();
    assert_eq!(fleet.now().since(before), Duration::from_millis(800), "a look, and then the records");
    fleet.run_for(secs(HOUR + 10)).await;
    let late = fleet.history("job").await.runs[0].started.since(NOON + secs(HOUR));
    assert!(late <= Duration::from_millis(400) && !late.is_zero(), "{late:?}");
}

#[tokio::test(start_paused = true)]
async fn servers_with_wrong_clocks_follow_the_stores() {
    let notes = Notes::new();
    let fleet = Fleet::of(3).job(notes.lasting(job("60s", 30), 5));
    let fleet = fleet.clock_off_by(0, 45_000).clock_off_by(1, -45_000).clock_off_by(2, 3_600_000);
    let fleet = fleet.start().await.unwrap();
    fleet.run_for(secs(601)).await;
    assert_eq!(notes.times(), (1..=10).map(|minute| (60 * minute, 60 * minute)).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_step_of_the_stores_clock_is_followed() {
    let notes = Notes::new();
    let fleet = Fleet::of(2).job(notes.lasting(job("1h", 30), 5)).start().await.unwrap();
    fleet.run_for(secs(600)).await;
    fleet.clock().step(3000 * 1000);
    fleet.run_for(secs(60)).await;
    assert_eq!(notes.ticks(), [HOUR], "it is one o'clock, though only eleven minutes have passed");
    assert!((600..=625).contains(&notes.starts()[0].at), "{:?}", notes.starts());
}

#[tokio::test(start_paused = true)]
async fn a_busy_server_leaves_its_tick_to_another() {
    let notes = Notes::new();
    let long = jobs::JobBuilder::clone(&jobs::Job::builder("long").every("1h"));
    let long = move || long.clone().run(|_| tokio::time::sleep(secs(600))).build().unwrap();
    let short = notes.lasting(job("1h", 30).jitter(secs(5)), 5);
    let fleet = Fleet::of(2).max_concurrent(1).job(long).job(short).start().await.unwrap();
    fleet.run_for(secs(HOUR + 60)).await;
    let busy = fleet.running("long").await.expect("it goes on").server_id();
    assert_eq!(notes.starts().len(), 1);
    assert_ne!(notes.starts()[0].server, busy);
}

#[tokio::test(start_paused = true)]
async fn an_added_server_is_one_of_the_fleet() {
    let notes = Notes::new();
    let mut fleet = Fleet::of(1).job(notes.lasting(job("60s", 30), 5)).start().await.unwrap();
    let added = fleet.add_server().await.unwrap();
    let heard = Heard::from(fleet.server(added));
    fleet.run_for(secs(61)).await;
    assert_eq!((notes.starts().len(), fleet.servers().len()), (1, 2));
    fleet.server(0).crash();
    fleet.run_for(secs(60)).await;
    assert_eq!(notes.starts()[1].server, fleet.server(added).server_id());
    assert!(heard.skips().iter().all(|skip| matches!(skip, SkipReason::Taken(_))));
}

#[tokio::test(start_paused = true)]
async fn a_fleet_can_begin_at_any_time() {
    let notes = Notes::new();
    let plan = job("0 3 * * *", 30).missed(Missed::RunOnce);
    let fleet = Fleet::of(2).job(notes.lasting(plan, 5)).begins_at(NOON + secs(14 * HOUR));
    let fleet = fleet.start().await.unwrap();
    fleet.run_for(secs(HOUR + 1)).await;
    assert_eq!(notes.times(), [(HOUR, 15 * HOUR)], "three at night");
}

#[test]
#[should_panic(expected = "must run under the lease of a job")]
fn code_that_must_be_locked_panics_outside_of_a_job() {
    jobs::assert_locked();
}

#[test]
fn a_test_can_pretend_to_be_locked_for_a_while() {
    {
        let _locked = pretend_locked();
        let _twice = pretend_locked();
        jobs::assert_locked();
    }
    assert!(std::panic::catch_unwind(jobs::assert_locked).is_err(), "and no longer");
}

#[tokio::test(start_paused = true)]
async fn task_spawned_by_a_job_is_not_locked() {
    let spawns = |_| async {
        let spawned =
            tokio::spawn(async { (Run::current().is_some(), std::panic::catch_unwind(jobs::assert_locked)) });
        let (current, locked) = spawned.await.unwrap();
        assert!(!current && locked.is_err());
    };
    let fleet = Fleet::of(1).job(Notes::new().job(job("1h", 30), spawns)).start().await.unwrap();
    fleet.run_for(secs(HOUR + 1)).await;
    assert_eq!(outcomes(&fleet).await, [RunOutcome::Succeeded]);
}
