use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jobs::events::SkipReason;
use jobs::fleet::Forgotten;
use jobs::history::{RunOutcome, Skip};
use jobs::schedule::OnLost;
use jobs::testing::Fleet;
use jobs::{Job, OperateError, RunNow};

use crate::common::{HOUR, Heard, Notes, job, secs};

#[tokio::test(start_paused = true)]
async fn a_job_runs_now_and_consumes_no_tick() {
    let notes = Notes::new();
    let fleet = Fleet::of(3).job(notes.lasting(job("1h", 30), 5)).start().await.unwrap();
    fleet.run_for(secs(HOUR - 60)).await;
    let Ok(RunNow::Ran(record)) = fleet.server(1).run_now("job").await else { panic!("it is free") };
    assert_eq!((record.outcome, record.tick, record.attempt), (RunOutcome::Succeeded, None, 1));
    assert_eq!(record.server, fleet.server(1).server_id());
    fleet.run_for(secs(120)).await;
    let ticks: Vec<_> = notes.starts().iter().map(|start| start.tick).collect();
    assert_eq!(ticks, [None, Some(HOUR)]);
    let runs = fleet.history("job").await.runs;
    assert_eq!((runs.len(), runs[1].fence), (2, record.fence), "and is on record");
}

#[tokio::test(start_paused = true)]
async fn manual_run_does_not_overlap_a_run() {
    let notes = Notes::new();
    let fleet = Fleet::of(3).job(notes.lasting(job("1h", 30), 60)).start().await.unwrap();
    fleet.run_for(secs(HOUR + 20)).await;
    for server in fleet.servers() {
        let asked = server.run_now("job").await.unwrap();
        assert!(matches!(asked, RunNow::Held(holder) if holder.server.is_some()));
    }
    assert_eq!(notes.ticks(), [HOUR]);
}

#[tokio::test(start_paused = true)]
async fn tick_does_not_overlap_a_manual_run() {
    let notes = Notes::new();
    let fleet = Fleet::of(3).job(notes.lasting(job("1h", 30), 60)).start().await.unwrap();
    fleet.run_for(secs(HOUR - 30)).await;
    assert!(matches!(fleet.server(0).run_now("job").await, Ok(RunNow::Ran(_))));
    assert_eq!(notes.starts().len(), 1);
    assert_eq!(fleet.history("job").await.skips[0].reason, Skip::Held);
}

#[tokio::test(start_paused = true)]
async fn manual_run_continues_when_its_caller_is_dropped() {
    let notes = Notes::new();
    let fleet = Fleet::of(1).job(notes.lasting(job("1h", 30), 60)).start().await.unwrap();
    assert!(tokio::time::timeout(secs(5), fleet.server(0).run_now("job")).await.is_err());
    fleet.run_for(secs(60)).await;
    assert_eq!(fleet.history("job").await.runs[0].outcome, RunOutcome::Succeeded);
}

#[tokio::test(start_paused = true)]
async fn pause_applies_to_every_server_and_a_paused_job_can_be_run_manually() {
    let notes = Notes::new();
    let fleet = Fleet::of(3).job(notes.lasting(job("60s", 30), 5)).start().await.unwrap();
    let heard: Vec<_> = fleet.servers().iter().map(Heard::from).collect();
    fleet.server(2).pause("job").await.unwrap();
    fleet.run_for(secs(130)).await;
    assert!(notes.starts().is_empty());
    assert!(heard.iter().all(|heard| heard.skips().len() == 2), "two ticks, on each of them");
    assert!(fleet.history("job").await.pause.is_some());
    assert!(matches!(fleet.server(0).run_now("job").await, Ok(RunNow::Ran(_))));
    fleet.server(1).resume("job").await.unwrap();
    fleet.run_for(secs(60)).await;
    assert_eq!(notes.starts().iter().map(|start| start.tick).collect::<Vec<_>>(), [None, Some(180)]);
}

#[tokio::test(start_paused = true)]
async fn operation_on_an_unknown_key_is_an_error() {
    let fleet = Fleet::of(1).job(Notes::new().lasting(job("1h", 30), 5)).start().await.unwrap();
    fleet.run_for(secs(1)).await;
    let server = fleet.server(0);
    let mistakes = [
        server.run_now("jbo").await.map(drop),
        server.pause("jbo").await.map(drop),
        server.resume("jbo").await.map(drop),
        server.reset("jbo").await,
        server.forget("jbo").await.map(drop),
        server.history("jbo").await.map(drop),
    ];
    for mistake in mistakes {
        let error = mistake.unwrap_err();
        assert!(matches!(&error, OperateError::NoSuchJob { key } if key == "jbo"), "{error:?}");
        assert!(error.to_string().contains("\"jbo\""), "{error}");
    }
}

/// A fleet whose first server has the job "job", and whose others have only "other".
async fn fleet_with_one_expert(notes: &Notes, servers: usize) -> Fleet {
    let (expert, made) = (notes.lasting(job("1h", 30), 60), AtomicUsize::new(0));
    let other = || Job::builder("other").run(|_| async {}).build().unwrap();
    let job = move || if made.fetch_add(1, Ordering::SeqCst) == 0 { expert() } else { other() };
    let fleet = Fleet::of(servers).job(job).start().await.unwrap();
    fleet.run_for(secs(1)).await;
    fleet
}

#[tokio::test(start_paused = true)]
async fn a_server_without_the_job_has_it_run_by_one_that_has_it() {
    let notes = Notes::new();
    let fleet = fleet_with_one_expert(&notes, 3).await;
    let asked = fleet.server(2).run_now("job").await.unwrap();
    let RunNow::Ran(record) = asked else { panic!("{asked:?}") };
    assert_eq!((record.server.as_str(), record.outcome), ("server-0", RunOutcome::Succeeded));
    let start = &notes.starts()[0];
    assert!(start.at <= 21 && start.tick.is_none(), "{start:?}");
    fleet.run_for(secs(600)).await;
    assert_eq!(notes.starts().len(), 1, "once");
}

#[tokio::test(start_paused = true)]
async fn one_server_alone_takes_a_request() {
    let notes = Notes::new();
    let (expert, made) = (notes.lasting(job("1h", 30), 5), AtomicUsize::new(0));
    let other = || Job::builder("other").run(|_| async {}).build().unwrap();
    let job = move || if made.fetch_add(1, Ordering::SeqCst) < 4 { expert() } else { other() };
    let fleet = Fleet::of(6).job(job).start().await.unwrap();
    fleet.run_for(secs(1)).await;
    let asked = tokio::join!(fleet.server(4).run_now("job"), fleet.server(5).run_now("job"));
    let (Ok(RunNow::Ran(one)), Ok(RunNow::Ran(other))) = asked else { panic!("{asked:?}") };
    assert_eq!(one, other, "two that ask at the same time hear of the same run");
    assert_eq!(notes.starts().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_asked_gets_the_record_of_the_run_that_started_not_of_one_that_never_did() {
    let notes = Notes::new();
    let (expert, made) = (notes.lasting(job("1h", 30), 60), AtomicUsize::new(0));
    let other = || Job::builder("other").run(|_| async {}).build().unwrap();
    let job = move || if made.fetch_add(1, Ordering::SeqCst) < 2 { expert() } else { other() };
    let fleet = Fleet::of(3).job(job).start().await.unwrap();
    fleet.run_for(secs(1)).await;
    let watch = async {
        // The first one wins, four requests after the notification, and its application is blocked by then.
        fleet.server(0).set_latency(Duration::from_millis(200));
        fleet.server(1).set_latency(Duration::from_millis(1500));
        fleet.run_for(Duration::from_millis(500)).await;
        fleet.server(0).block_application(true);
        fleet.run_for(secs(5)).await;
        assert_eq!(fleet.history("job").await.current.expect("it was won").server, "server-0");
        fleet.server(1).set_latency(Duration::ZERO);
        fleet.run_for(secs(10)).await;
        assert_eq!(fleet.history("job").await.runs[0].outcome, RunOutcome::NotStarted);
    };
    let (asked, ()) = tokio::join!(fleet.server(2).run_now("job"), watch);
    let RunNow::Ran(record) = asked.unwrap() else { panic!("it ran") };
    assert_eq!((record.server.as_str(), record.outcome), ("server-1", RunOutcome::Succeeded));
    assert_eq!(notes.starts().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn manual_run_does_not_overlap_a_run_of_this_server_that_lost_its_lease() {
    let notes = Notes::new();
    let plan = job("1h", 30).keep_alive(false).on_lost(OnLost::Continue);
    let fleet = Fleet::of(1).job(notes.lasting(plan, 120)).start().await.unwrap();
    let server = fleet.server(0);
    fleet.run_for(secs(HOUR + 25)).await;
    server.cut_off(true);
    let watch = async {
        fleet.run_for(secs(7)).await;
        assert_eq!(fleet.history("job").await.current, None, "its lease is over, and the key is free");
        server.cut_off(false);
    };
    let (asked, ()) = tokio::join!(server.run_now("job"), watch);
    let Ok(RunNow::Held(holder)) = asked else { panic!("{asked:?}") };
    assert_eq!(holder.server.as_deref(), Some(server.server_id()));
    assert_eq!((notes.starts().len(), notes.most_at_once()), (1, 1));
    fleet.run_for(secs(120)).await;
    assert!(matches!(server.run_now("job").await, Ok(RunNow::Ran(_))), "now it has ended");
}

#[tokio::test(start_paused = true)]
async fn manual_run_won_beside_a_run_that_lost_its_lease_during_the_claim_is_given_back() {
    let notes = Notes::new();
    let plan = job("1h", 30).keep_alive(false).on_lost(OnLost::Continue);
    let fleet = Fleet::of(1).job(notes.lasting(plan, 120)).start().await.unwrap();
    let server = fleet.server(0);
    // The claim is sent while the run has its lease, and arrives when that is over.
    fleet.run_for(secs(HOUR + 26)).await;
    server.set_latency(Duration::from_millis(4500));
    let asked = server.run_now("job").await;
    let Ok(RunNow::Held(holder)) = asked else { panic!("{asked:?}") };
    assert_eq!(holder.server.as_deref(), Some(server.server_id()));
    assert_eq!((notes.starts().len(), notes.most_at_once()), (1, 1));
    let runs = fleet.history("job").await.runs;
    assert!(
        runs.iter().any(|run| run.outcome == RunOutcome::NotStarted),
        "it was won and given back: {runs:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn tick_won_beside_a_run_that_lost_its_lease_is_given_back() {
    let notes = Notes::new();
    let plan = job("26s", 30).grace(secs(20)).keep_alive(false).on_lost(OnLost::Continue);
    let fleet = Fleet::of(1).job(notes.lasting(plan, 50)).start().await.unwrap();
    while notes.starts().is_empty() {
        fleet.run_for(secs(1)).await;
    }
    fleet.server(0).set_latency(Duration::from_millis(4500));
    fleet.run_for(secs(45)).await;
    assert_eq!((notes.starts().len(), notes.most_at_once()), (1, 1));
    let runs = fleet.history("job").await.runs;
    assert!(runs.iter().any(|run| run.outcome == RunOutcome::NotStarted), "{runs:?}");
}

#[tokio::test(start_paused = true)]
async fn request_that_no_server_takes_expires() {
    let notes = Notes::new();
    let mut fleet = fleet_with_one_expert(&notes, 2).await;
    fleet.run_for(secs(2 * HOUR)).await;
    fleet.server(0).crash();
    let asked = fleet.server(1).run_now("job").await.unwrap();
    assert_eq!(asked, RunNow::NoServer);
    let starts = notes.starts().len();
    fleet.add_server().await.unwrap();
    fleet.run_for(secs(600)).await;
    assert_eq!(notes.starts().len(), starts, "nor is it taken up afterwards");
}

#[tokio::test(start_paused = true)]
async fn request_for_a_job_that_is_running_is_refused_with_that_reason() {
    let notes = Notes::new();
    let fleet = fleet_with_one_expert(&notes, 2).await;
    fleet.run_for(secs(HOUR - 1)).await;
    let asked = fleet.server(1).run_now("job").await.unwrap();
    assert!(matches!(asked, RunNow::Held(holder) if holder.server.as_deref() == Some("server-0")));
    assert_eq!(notes.starts().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_does_not_wait_for_a_run_that_was_asked_of_another_server() {
    let notes = Notes::new();
    let mut fleet = fleet_with_one_expert(&notes, 2).await;
    assert!(tokio::time::timeout(secs(25), fleet.server(1).run_now("job")).await.is_err());
    assert_eq!(notes.going_on(), 1);
    let before = fleet.now();
    fleet.shut_down(1).await;
    assert!(fleet.now().since(before) < secs(1), "{:?}", fleet.now().since(before));
    assert_eq!(fleet.server(0).servers().await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn manual_run_from_a_job_on_a_server_without_free_capacity_is_refused_as_busy() {
    let (fleet, told) = (Arc::new(OnceLock::<Fleet>::new()), Arc::new(OnceLock::new()));
    let (its_own, tells) = (fleet.clone(), told.clone());
    let caller = move || {
        let (fleet, tells) = (its_own.clone(), tells.clone());
        Job::builder("caller")
            .run(move |_| {
                let (fleet, tells) = (fleet.clone(), tells.clone());
                async move {
                    let server = fleet.get().expect("it has started").server(0);
                    tells.set(server.run_now("job").await.unwrap()).unwrap();
                }
            })
            .build()
            .unwrap()
    };
    let notes = Notes::new();
    let started = Fleet::of(1).max_concurrent(1).job(notes.lasting(job("1h", 30), 5)).job(caller).start();
    let started = started.await.unwrap();
    assert!(fleet.set(started).is_ok());
    let fleet = fleet.get().unwrap();
    let outcome = tokio::time::timeout(secs(60), fleet.server(0).run_now("caller")).await;
    let Ok(Ok(RunNow::Ran(record))) = outcome else { panic!("{outcome:?}") };
    assert_eq!((told.get(), record.duration()), (Some(&RunNow::Busy), secs(10)));
    assert!(notes.starts().is_empty());
    assert!(matches!(fleet.server(0).run_now("job").await, Ok(RunNow::Ran(_))), "now there is a place");
}

#[tokio::test(start_paused = true)]
async fn job_is_forgotten_only_when_no_server_has_it_and_it_was_idle_for_an_hour() {
    let notes = Notes::new();
    let fleet = fleet_with_one_expert(&notes, 2).await;
    let other = fleet.server(1);
    let forget = || async { other.forget("job").await.unwrap() };
    fleet.run_for(secs(HOUR)).await;
    assert_eq!(forget().await, Forgotten::Scheduled("server-0".to_owned()));
    fleet.server(0).crash();
    fleet.run_for(secs(20)).await;
    assert_eq!(forget().await, Forgotten::Scheduled("server-0".to_owned()), "for all that is known");
    fleet.run_for(secs(40)).await;
    assert!(matches!(forget().await, Forgotten::TooRecent(_)));
    other.pause("job").await.unwrap();
    assert_eq!(forget().await, Forgotten::Paused);
    other.resume("job").await.unwrap();
    fleet.run_for(secs(HOUR)).await;
    assert_eq!(forget().await, Forgotten::Yes);
    assert!(fleet.history("job").await.runs.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_held_job_is_not_forgotten() {
    let fleet = {
        let (made, long) = (AtomicUsize::new(0), Notes::new().lasting(job("1h", 600), 900));
        let other = || Job::builder("other").run(|_| async {}).build().unwrap();
        let job = move || if made.fetch_add(1, Ordering::SeqCst) == 0 { long() } else { other() };
        Fleet::of(2).job(job).start().await.unwrap()
    };
    fleet.run_for(secs(HOUR + 10)).await;
    fleet.server(0).crash();
    fleet.run_for(secs(60)).await;
    assert!(matches!(fleet.server(1).forget("job").await, Ok(Forgotten::Held(_))), "its lease lasts");
}

#[tokio::test(start_paused = true)]
async fn reset_lets_a_job_run_again_after_the_clock_went_back() {
    let notes = Notes::new();
    let fleet = Fleet::of(1).job(notes.lasting(job("10m", 30), 5)).start().await.unwrap();
    fleet.run_for(secs(HOUR + 10)).await;
    assert_eq!(notes.starts().len(), 6);
    fleet.clock().step(-1800 * 1000);
    let heard = Heard::from(fleet.server(0));
    fleet.run_for(secs(900)).await;
    assert_eq!(notes.starts().len(), 6, "its ticks have run already");
    assert!(heard.skips().iter().any(|skip| matches!(skip, SkipReason::MarkAhead(_))), "{:?}", heard.skips());
    fleet.server(0).reset("job").await.unwrap();
    fleet.run_for(secs(600)).await;
    assert_eq!(notes.starts().len(), 7);
}
