//! A job that no server schedules any more can be forgotten, once that is safe.

use std::time::Duration;

use crate::fleet::Forgotten;
use crate::history::{History, RunOutcome};
use crate::schedule::Missed;
use crate::store::{ClaimDecision, ClaimPurpose, Ending, TickClaim};

use crate::store::decide::tests::bench;
use crate::testing::store::bench::{
    Bench, DAY, LONG, MOMENT, SHORT, ask, claim, claim_now, claim_requested, claim_what, claim_with, ending,
};

/// Finishes a tick, and lets a moment pass: longer than its grace.
async fn used(bench: &Bench) -> crate::store::Lease {
    let tick = bench.tick_ago(SHORT).await;
    let brief = TickClaim { grace: SHORT + MOMENT / 4, ..ask(tick) };
    let lease = bench.finish(&claim_with("a", LONG, brief)).await;
    tokio::time::sleep(MOMENT).await;
    lease
}

#[tokio::test(start_paused = true)]
async fn nothing_is_remembered_of_a_forgotten_job() {
    let bench = bench();
    used(&bench).await;
    bench.request("one", LONG).await;
    assert_ne!(bench.history().await, History::default());
    assert_eq!(bench.forget(Duration::ZERO).await, Forgotten::Yes);
    assert_eq!(bench.history().await, History::default());
    assert_eq!(bench.claim(&claim_requested("a", "one")).await, ClaimDecision::NotRequested);
    assert_eq!(bench.forget(LONG).await, Forgotten::Yes, "as of a job that never was");
}

#[tokio::test(start_paused = true)]
async fn forgotten_job_has_missed_nothing() {
    let bench = bench();
    let tick = used(&bench).await.tick.expect("a tick");
    bench.forget(Duration::ZERO).await;
    let missed = TickClaim { missed: Missed::RunOnce, grace: Duration::ZERO, ..ask(tick) };
    let late = bench.claim(&claim_with("b", LONG, missed)).await;
    assert!(matches!(late, ClaimDecision::Late(_)), "{late:?}");
}

#[tokio::test(start_paused = true)]
async fn held_key_is_not_forgotten() {
    let bench = bench();
    bench.win(&claim_now("a", LONG)).await;
    let Forgotten::Held(holder) = bench.forget(Duration::ZERO).await else { panic!("the key is held") };
    assert_eq!(holder.server.as_deref(), Some("a"));
    assert_ne!(bench.history().await.current, None);
}

#[tokio::test(start_paused = true)]
async fn key_under_a_foreign_lock_is_not_forgotten() {
    let bench = bench();
    bench.foreign_lock(LONG).await;
    let Forgotten::Held(holder) = bench.forget(Duration::ZERO).await else { panic!("the key is held") };
    assert_eq!(holder.server, None);
    bench.lock_is(Some("foreign")).await;
}

#[tokio::test(start_paused = true)]
async fn job_whose_last_holder_crashed_is_forgotten() {
    let bench = bench();
    let crashed = bench.win(&claim_now("a", SHORT)).await;
    bench.outlive(&crashed).await;
    assert_eq!(bench.forget(Duration::ZERO).await, Forgotten::Yes);
    assert_eq!(bench.history().await, History::default());
}

#[tokio::test(start_paused = true)]
async fn paused_job_is_not_forgotten() {
    let bench = bench();
    used(&bench).await;
    bench.pause(true).await;
    assert_eq!(bench.forget(Duration::ZERO).await, Forgotten::Paused);
    let tick = bench.tick_now().await;
    assert!(matches!(bench.claim(&claim("b", tick)).await, ClaimDecision::Paused(_)));
    bench.pause(false).await;
    tokio::time::sleep(DAY).await;
    assert_eq!(bench.forget(Duration::ZERO).await, Forgotten::Yes);
}

#[tokio::test(start_paused = true)]
async fn job_that_was_run_recently_is_not_forgotten() {
    let bench = bench();
    let lease = used(&bench).await;
    let before = bench.history().await;
    // The fence is a time, and later than the tick.
    let last = crate::Timestamp::from_micros(lease.fence);
    assert_eq!(bench.forget(DAY).await, Forgotten::TooRecent(last));
    assert_eq!(bench.history().await, before);
    assert_eq!(bench.forget(MOMENT / 2).await, Forgotten::Yes);
}

#[tokio::test(start_paused = true)]
async fn job_whose_tick_was_skipped_recently_is_not_forgotten() {
    let bench = bench();
    bench.pause(true).await;
    let tick = bench.tick_now().await;
    bench.claim(&claim("a", tick)).await;
    bench.pause(false).await;
    assert_eq!(bench.forget(DAY).await, Forgotten::TooRecent(tick));
    assert_eq!(bench.history().await.skips.len(), 1);
}

/// Otherwise the work would be done again.
#[tokio::test(start_paused = true)]
async fn work_that_counts_as_done_is_not_forgotten() {
    let bench = bench();
    let lease = bench.win(&claim_what("a", LONG, ClaimPurpose::Once)).await;
    let done = Ending { done_for: Some(DAY), ..ending(RunOutcome::Succeeded) };
    bench.release_with(&lease, &done).await;
    tokio::time::sleep(DAY / 2).await;
    let refused = bench.forget(MOMENT).await;
    assert!(matches!(refused, Forgotten::TooRecent(_)), "{refused:?}");
    let again = bench.claim(&claim_what("b", LONG, ClaimPurpose::Once)).await;
    assert!(matches!(again, ClaimDecision::Done(_)), "{again:?}");
    tokio::time::sleep(DAY).await;
    assert_eq!(bench.forget(MOMENT).await, Forgotten::Yes);
}

#[tokio::test(start_paused = true)]
async fn mark_from_the_future_is_not_forgotten() {
    let bench = bench();
    let ahead = crate::store::decide::tests::claims::mark_ahead(&bench, LONG).await;
    assert_eq!(bench.forget(Duration::ZERO).await, Forgotten::TooRecent(ahead));
}

#[tokio::test(start_paused = true)]
async fn fences_grow_across_forgetting() {
    let bench = bench();
    let mut last = 0;
    for _ in 0..3 {
        let lease = used(&bench).await;
        assert!(lease.fence > last, "{} is not above {last}", lease.fence);
        last = lease.fence;
        assert_eq!(bench.forget(Duration::ZERO).await, Forgotten::Yes);
    }
}

/// A server that was cut off asks for a tick for as long as its grace lasts: with `overlap = "queue"`, until the next one.
#[tokio::test(start_paused = true)]
async fn job_is_not_forgotten_before_the_grace_of_its_last_tick_is_over() {
    let bench = bench();
    let tick = bench.tick_now().await;
    let daily = TickClaim { grace: DAY, overlap: crate::schedule::Overlap::Queue, ..ask(tick) };
    bench.finish(&claim_with("a", LONG, daily.clone())).await;
    let hour = Duration::from_secs(3600);
    tokio::time::sleep(2 * hour).await;
    let refused = bench.forget(hour).await;
    assert!(matches!(refused, Forgotten::TooRecent(_)), "{refused:?}");
    let again = bench.claim(&claim_with("b", LONG, daily.clone())).await;
    assert!(!matches!(again, ClaimDecision::Won(_)), "a second start of the tick: {again:?}");
    tokio::time::sleep(DAY).await;
    assert_eq!(bench.forget(hour).await, Forgotten::Yes);
    let late = bench.claim(&claim_with("b", LONG, daily)).await;
    assert!(!matches!(late, ClaimDecision::Won(_)), "its grace is over: {late:?}");
}
