use jobs::events::{EventKind, SkipReason};
use jobs::history::RunOutcome;
use jobs::testing::Fleet;

use crate::common::{HOUR, Heard, Notes, job, outcomes, secs};

#[tokio::test(start_paused = true)]
async fn start_and_end_of_a_run_are_reported() {
    let fleet = Fleet::of(1).job(Notes::new().lasting(job("1h", 30), 5)).start().await.unwrap();
    let heard = Heard::from(fleet.server(0));
    fleet.run_for(secs(HOUR + 10)).await;
    let about_the_run: Vec<_> =
        heard.all().into_iter().filter(|kind| !matches!(kind, EventKind::Skipped { .. })).collect();
    let [EventKind::Started(started), EventKind::Succeeded { run, took }] = &about_the_run[..] else {
        panic!("{about_the_run:?}")
    };
    assert_eq!((started, *took), (run, secs(5)));
    let record = fleet.history("job").await.runs.remove(0);
    assert_eq!((run.fence, run.tick, run.attempt), (record.fence, record.tick, 1));
}

#[tokio::test(start_paused = true)]
async fn every_server_that_did_not_run_a_tick_reports_the_reason() {
    let fleet = Fleet::of(3).job(Notes::new().lasting(job("1h", 30), 5)).start().await.unwrap();
    let heard: Vec<_> = fleet.servers().iter().map(Heard::from).collect();
    fleet.run_for(secs(HOUR + 10)).await;
    let started = |heard: &Heard| heard.count(|kind| matches!(kind, EventKind::Started(_)));
    assert_eq!(heard.iter().map(started).sum::<usize>(), 1);
    for heard in heard.iter().filter(|heard| started(heard) == 0) {
        assert!(matches!(heard.skips()[..], [SkipReason::Taken(_)]), "{:?}", heard.skips());
    }
}

#[tokio::test(start_paused = true)]
async fn failures_panics_and_cancellations_are_separate_events() {
    let notes = Notes::new();
    let ends = notes.job(job("1h", 30), |run| async move {
        match run.tick().unwrap().since(crate::common::NOON).as_secs() / HOUR {
            1 => Err::<(), _>("no luck"),
            2 => panic!("out of cheese"),
            _ => std::future::pending().await,
        }
    });
    let mut fleet = Fleet::of(1).job(ends).start().await.unwrap();
    let heard = Heard::from(fleet.server(0));
    fleet.run_for(secs(3 * HOUR + 10)).await;
    fleet.shut_down(0).await;
    tokio::task::yield_now().await;
    assert_eq!(heard.count(|kind| matches!(kind, EventKind::Failed { error, .. } if error == "no luck")), 1);
    let panicked =
        |kind: &EventKind| matches!(kind, EventKind::Panicked { error, .. } if error == "out of cheese");
    assert_eq!(heard.count(panicked), 1);
    assert_eq!(heard.count(|kind| matches!(kind, EventKind::Cancelled { .. })), 1);
}

#[tokio::test(start_paused = true)]
async fn lost_lease_and_lost_and_restored_store_are_reported() {
    let fleet = Fleet::of(1).job(Notes::new().lasting(job("1h", 30), 60)).start().await.unwrap();
    let heard = Heard::from(fleet.server(0));
    fleet.run_for(secs(HOUR + 5)).await;
    fleet.cut_off_the_store(true);
    fleet.run_for(secs(120)).await;
    assert_eq!(
        heard.count(|kind| matches!(kind, EventKind::StoreUnavailable { .. })),
        1,
        "once, not each time"
    );
    assert_eq!(heard.count(|kind| matches!(kind, EventKind::StoreBack)), 0);
    assert_eq!(heard.count(|kind| matches!(kind, EventKind::LeaseLost { .. })), 1, "while the store is away");
    fleet.cut_off_the_store(false);
    fleet.run_for(secs(30)).await;
    assert_eq!(heard.count(|kind| matches!(kind, EventKind::StoreBack)), 1);
    assert_eq!(heard.count(|kind| matches!(kind, EventKind::LeaseLost { .. })), 1);
}

#[tokio::test(start_paused = true)]
async fn slow_subscriber_loses_the_oldest_events_and_learns_how_many() {
    let fleet = Fleet::of(1).job(Notes::new().lasting(job("10s", 5), 1)).start().await.unwrap();
    let mut slow = fleet.server(0).events();
    let quick = Heard::from(fleet.server(0));
    fleet.run_for(secs(2 * HOUR)).await;
    let all = quick.all();
    assert!(all.len() > 1400, "two for each run");
    let first = slow.next().await.unwrap();
    let EventKind::EventsLost(lost) = first.kind else { panic!("{first:?}") };
    let lost = usize::try_from(lost).unwrap();
    assert!(lost >= all.len() - 1024 && lost < all.len(), "{lost} of {}", all.len());
    for expected in &all[lost..] {
        assert_eq!(slow.next().await.unwrap().kind, *expected, "the rest is there, in order");
    }
}

#[tokio::test(start_paused = true)]
async fn subscriber_that_never_reads_does_not_delay_a_run() {
    let notes = Notes::new();
    let fleet = Fleet::of(1).job(notes.lasting(job("10s", 5), 1)).start().await.unwrap();
    let _never_read = fleet.server(0).events();
    fleet.run_for(secs(HOUR) + std::time::Duration::from_millis(1)).await;
    assert_eq!(notes.starts().len(), 360);
    assert!(outcomes(&fleet).await[..99].iter().all(|outcome| *outcome == RunOutcome::Succeeded));
}

#[tokio::test(start_paused = true)]
async fn the_stream_ends_with_its_server() {
    let mut fleet = Fleet::of(1).job(Notes::new().lasting(job("1h", 30), 5)).start().await.unwrap();
    let mut events = fleet.server(0).events();
    fleet.run_for(secs(HOUR + 10)).await;
    fleet.shut_down(0).await;
    let mut told = 0;
    while events.next().await.is_some() {
        told += 1;
    }
    assert!(told >= 2, "what was told before is still heard");
}

#[tokio::test(start_paused = true)]
async fn an_event_has_the_stores_time_and_its_jobs_key() {
    let fleet = Fleet::of(1).job(Notes::new().lasting(job("1h", 30), 5)).clock_off_by(0, 90_000);
    let fleet = fleet.start().await.unwrap();
    let mut events = fleet.server(0).events();
    fleet.run_for(secs(HOUR + 10)).await;
    let started = loop {
        let event = events.next().await.unwrap();
        if matches!(event.kind, EventKind::Started(_)) {
            break event;
        }
    };
    assert_eq!(started.key, "job");
    assert_eq!(started.at, crate::common::NOON + secs(HOUR));
}
