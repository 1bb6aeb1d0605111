//! Ticks, and how long they wait and take.

use super::*;
use crate::events::SkipReason;
use crate::fleet::Pause;
use crate::observe::metrics::tick_result::TickResult;
use crate::{RunNow, Timestamp};

#[tokio::test(start_paused = true)]
async fn ticks_are_counted_by_their_result_on_each_server() {
    let (page, _recorder) = Page::install();
    let fleet = Fleet::of(3).job(|| lasting(5)).start().await.unwrap();
    fleet.run_for(secs(4 * HOUR + 60)).await;
    assert_eq!((page.ticks("succeeded"), page.ticks("taken")), (Some(4.0), Some(8.0)));
    assert_eq!(
        (page.ticks("failed"), page.ticks("missed")),
        (Some(0.0), Some(0.0)),
        "known before the first"
    );
    assert_eq!(page.ticks("superseded"), None, "harmless results begin with the first");
}

#[tokio::test(start_paused = true)]
async fn every_outcome_of_a_run_is_a_result_and_has_its_duration() {
    fn run_out_of_cheese() {
        panic!("out of cheese")
    }
    let (page, _recorder) = Page::install();
    let ends = || {
        let ends = |run: Run| async move {
            tokio::time::sleep(secs(hour(&run))).await;
            match hour(&run) {
                1 => return Err("no luck"),
                2 => run_out_of_cheese(),
                3 => {}
                _ => std::future::pending().await,
            }
            Ok(())
        };
        hourly().timeout("20m").run(ends).build().unwrap()
    };
    let fleet = Fleet::of(1).job(ends).start().await.unwrap();
    fleet.run_for(secs(4 * HOUR + 1800)).await;
    for (outcome, took) in [("failed", 1.0), ("panicked", 2.0), ("succeeded", 3.0), ("timed_out", 1200.0)] {
        assert_eq!(page.ticks(outcome), Some(1.0), "{outcome}");
        assert_eq!(page.durations(outcome), (Some(1.0), Some(took)), "{outcome}");
    }
    fleet.run_for(secs(HOUR - 1800 + 60)).await;
    fleet.server(0).cancel("job").await.unwrap();
    assert_eq!(page.ticks("cancelled"), Some(1.0));
    assert_eq!(page.durations("cancelled").0, Some(1.0));
}

#[tokio::test(start_paused = true)]
async fn manual_run_has_a_duration_and_no_tick() {
    let (page, _recorder) = Page::install();
    let fleet = Fleet::of(1).job(|| lasting(5)).start().await.unwrap();
    assert!(matches!(fleet.server(0).run_now("job").await, Ok(RunNow::Ran(_))));
    assert_eq!(page.durations("succeeded"), (Some(1.0), Some(5.0)));
    assert_eq!(page.ticks("succeeded"), Some(0.0));
    assert_eq!(page.get("jobs_start_delay_seconds_count{job_name=\"job\"}"), Some(0.0));
}

#[tokio::test(start_paused = true)]
async fn missed_ticks_are_counted_one_by_one() {
    let (page, _recorder) = Page::install();
    let mut fleet = Fleet::of(1).job(|| lasting(5)).start().await.unwrap();
    fleet.run_for(secs(HOUR + 60)).await;
    fleet.shut_down(0).await;
    fleet.run_for(secs(3 * HOUR)).await;
    fleet.add_server().await.unwrap();
    fleet.run_for(secs(HOUR)).await;
    assert_eq!((page.ticks("missed"), page.ticks("succeeded")), (Some(3.0), Some(2.0)));
}

#[tokio::test(start_paused = true)]
async fn start_delay_is_the_time_from_the_due_instant_to_the_call() {
    let (page, _recorder) = Page::install();
    let fleet = Fleet::of(1).job(|| lasting(5)).start().await.unwrap();
    fleet.run_for(secs(HOUR - 60)).await;
    fleet.server(0).set_latency(Duration::from_millis(1500));
    fleet.run_for(secs(120)).await;
    assert_eq!(page.get("jobs_start_delay_seconds_count{job_name=\"job\"}"), Some(1.0));
    let delay = page.get("jobs_start_delay_seconds_sum{job_name=\"job\"}").unwrap();
    assert!((1.4..=4.6).contains(&delay), "a look and a swap take 3 s: {delay}");
}

#[tokio::test(start_paused = true)]
async fn jitter_is_no_start_delay() {
    let (page, _recorder) = Page::install();
    let fleet =
        Fleet::of(1).job(|| hourly().jitter("50m").run(|_| async {}).build().unwrap()).start().await.unwrap();
    fleet.run_for(secs(10 * HOUR)).await;
    assert!(page.get("jobs_start_delay_seconds_count{job_name=\"job\"}").unwrap() >= 9.0);
    let delays = page.get("jobs_start_delay_seconds_sum{job_name=\"job\"}").unwrap();
    assert!(delays < 1.0, "{delays}");
}

#[test]
fn every_result_has_a_counter_and_a_name_of_its_own() {
    let names: BTreeSet<_> = TickResult::ALL.iter().map(|result| result.as_str()).collect();
    assert_eq!(names.len(), TickResult::COUNT);
    for (index, result) in TickResult::ALL.iter().enumerate() {
        assert_eq!(*result as usize, index);
    }
    let at = Timestamp::from_micros(0);
    let pause = Pause { by: "anna".into(), reason: None, since: at, until: None, all: false };
    let reasons = [
        (SkipReason::Superseded(at), "superseded"),
        (SkipReason::MarkAhead(at), "ahead"),
        (SkipReason::Unregistered, "unregistered"),
        (SkipReason::Paused(pause), "paused"),
        (SkipReason::Late(Duration::ZERO), "late"),
        (SkipReason::Busy, "busy"),
        (SkipReason::WonTooLate, "not_started"),
        (SkipReason::NotReplicated(String::new()), "not_replicated"),
        (SkipReason::StillRunning, "still_running"),
        (SkipReason::ApplicationBlocked, "application_blocked"),
        (SkipReason::StoreUnavailable(String::new()), "store_unavailable"),
        (SkipReason::Stopping, "stopping"),
    ];
    for (reason, name) in reasons {
        assert_eq!(TickResult::from(&reason).as_str(), name);
    }
}
