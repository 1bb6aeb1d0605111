//! What operators do to runs in progress: cancel them, break their lock, reset the mark.

use std::time::Duration;

use crate::events::Taken;
use crate::history::RunOutcome;
use crate::store::{ClaimDecision, ClaimPurpose, ExtendReply, Lease, ReleaseReply, TickClaim};
use crate::testing::store::bench::{
    Bench, LONG, MOMENT, SHORT, ask, claim, claim_now, claim_requested, claim_what, claim_with, holder,
    started,
};

use super::{LOST, START, bench, subject_on};
use crate::testing::TestClock;

pub(crate) mod fleet;
pub(crate) mod forgetting;
pub(crate) mod keys;
pub(crate) mod pauses;
pub(crate) mod records;
pub(crate) mod requests;

pub(crate) mod statistics;

#[tokio::test(start_paused = true)]
async fn cancellation_reaches_the_holder_at_its_next_extension() {
    let bench = bench();
    let mut lease = bench.win(&claim_now("a", LONG)).await;
    let asked = bench.cancel().await.expect("a run in progress");
    assert_eq!((&*asked.server, asked.fence, asked.until), ("a", lease.fence, lease.until));
    assert_eq!(bench.history().await.current, Some(asked), "people see who asked");
    for _ in 0..2 {
        let ExtendReply::Kept { until, cancelled_by } = bench.extend(&lease).await else {
            panic!("a cancelled run keeps its lease until it has ended")
        };
        assert_eq!(cancelled_by.as_deref(), Some("client"));
        lease.until = until;
    }
    assert_eq!(bench.release(&lease, RunOutcome::Cancelled).await, ReleaseReply::Released);
    assert_eq!(bench.newest_run().await.outcome, RunOutcome::Cancelled);
    let mut next = bench.win(&claim_now("b", LONG)).await;
    let reply = bench.extend(&next).await;
    assert!(matches!(reply, ExtendReply::Kept { cancelled_by: None, .. }), "{reply:?}");
    bench.keep(&mut next).await;
}

#[tokio::test(start_paused = true)]
async fn repeated_cancellation_writes_nothing() {
    let bench = bench();
    bench.win(&claim_now("a", LONG)).await;
    bench.cancel().await;
    let version = bench.look().await.version;
    bench.cancel().await;
    assert_eq!(bench.look().await.version, version);
}

#[tokio::test(start_paused = true)]
async fn only_a_run_in_progress_can_be_cancelled() {
    let bench = bench();
    assert_eq!(bench.cancel().await, None);
    let lock = bench.win(&claim_what("a", LONG, ClaimPurpose::Lock)).await;
    assert_eq!(bench.cancel().await, None);
    bench.release(&lock, RunOutcome::Succeeded).await;
    bench.finish(&claim_now("a", LONG)).await;
    assert_eq!(bench.cancel().await, None);
    let crashed = bench.win(&claim_now("a", SHORT)).await;
    bench.outlive(&crashed).await;
    assert_eq!(bench.cancel().await, None);
}

#[tokio::test(start_paused = true)]
async fn tick_of_a_broken_run_is_not_taken_over() {
    let bench = bench();
    let tick = bench.tick_ago(SHORT).await;
    let retried = TickClaim { takeovers: 5, ..ask(tick) };
    let lease = bench.win(&claim_with("a", LONG, retried.clone())).await;
    bench.break_lock().await;
    let verdict = bench.verdict(&claim_with("b", LONG, retried.clone())).await;
    assert_eq!((verdict.decision, verdict.unfinished), (started("a", lease.since, true), None));
    // Also when the broken server reports another end.
    assert_eq!(bench.release(&lease, RunOutcome::Cancelled).await, ReleaseReply::NotHeld);
    assert_eq!(bench.claim(&claim_with("b", LONG, retried)).await, started("a", lease.since, true));
}

#[tokio::test(start_paused = true)]
async fn tick_of_a_cancelled_run_is_not_taken_over() {
    let bench = bench();
    let tick = bench.tick_ago(SHORT).await;
    let retried = TickClaim { takeovers: 5, ..ask(tick) };
    let lease = bench.win(&claim_with("a", LONG, retried.clone())).await;
    bench.cancel().await;
    assert_eq!(bench.release(&lease, RunOutcome::Cancelled).await, ReleaseReply::Released);
    assert_eq!(bench.claim(&claim_with("b", LONG, retried)).await, started("a", lease.since, true));
}

#[tokio::test(start_paused = true)]
async fn broken_lease_learns_who_broke_it_until_it_is_replaced() {
    let bench = bench();
    let lease = bench.win(&claim_now("a", LONG)).await;
    bench.break_lock().await;
    let broken = ExtendReply::Lost { broken_by: Some("client".into()) };
    assert_eq!(bench.extend(&lease).await, broken);
    bench.win(&claim_now("b", LONG)).await;
    assert_eq!(bench.extend(&lease).await, LOST);
}

#[tokio::test(start_paused = true)]
async fn broken_manual_lock_is_not_restored_after_its_record_is_deleted() {
    let bench = bench();
    let broken = bench.win(&claim_what("a", LONG, ClaimPurpose::Lock)).await;
    bench.break_lock().await;
    // No server claims the key, and the record expires.
    let expires = bench.look().await.state.expires.expect("an expiry");
    assert!(expires >= broken.until, "{expires} is before the end of the broken lease, {}", broken.until);
    tokio::time::sleep(expires.since(bench.now().await)).await;
    assert_eq!(bench.extend(&broken).await, LOST);
}

/// A run that was started when the store's clock was ahead.
async fn run_from_the_future(clock: &TestClock, bench: &Bench) -> Lease {
    clock.step(3_600_000);
    let tick = bench.tick_ago(MOMENT).await;
    let lease = bench.win(&claim_with("a", 10 * LONG, ask(tick))).await;
    clock.step(-3_600_000);
    lease
}

#[tokio::test(start_paused = true)]
async fn run_in_progress_does_not_raise_a_mark_that_was_reset() {
    for outcome in [RunOutcome::Succeeded, RunOutcome::Cancelled] {
        let clock = TestClock::starting_at(START);
        let bench = Bench::of(&subject_on(&clock));
        let mut lease = run_from_the_future(&clock, &bench).await;
        bench.reset().await;
        assert_eq!(bench.look().await.state.reset_fence, Some(lease.fence));
        bench.keep(&mut lease).await;
        assert_eq!(bench.release(&lease, outcome).await, ReleaseReply::Released);
        bench.release(&lease, outcome).await;
        let tick = bench.tick_now().await;
        let reply = bench.claim(&claim("b", tick)).await;
        assert!(matches!(reply, ClaimDecision::Won(_)), "later ticks are free: {reply:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn lease_after_a_reset_raises_the_mark_again() {
    let clock = TestClock::starting_at(START);
    let bench = Bench::of(&subject_on(&clock));
    let lease = run_from_the_future(&clock, &bench).await;
    bench.reset().await;
    bench.release(&lease, RunOutcome::Succeeded).await;
    let tick = bench.tick_now().await;
    let newer = bench.win(&claim("b", tick)).await;
    assert!(newer.fence > lease.fence, "{newer:?} after {lease:?}");
    assert_eq!(bench.claim(&claim("c", tick)).await, started("b", newer.since, false));
}

#[tokio::test(start_paused = true)]
async fn reset_without_a_mark_ahead_writes_nothing() {
    let bench = bench();
    bench.reset().await;
    assert_eq!(bench.look().await.version, None);
    bench.finish(&claim("a", bench.tick_ago(SHORT).await)).await;
    let before = bench.look().await;
    bench.reset().await;
    assert_eq!(bench.look().await, before);
}

#[tokio::test(start_paused = true)]
async fn tick_is_taken_over_by_the_policy_that_it_was_started_under() {
    let bench = bench();
    let tick = bench.tick_ago(SHORT).await;
    let with = |server: &str, takeovers| claim_with(server, LONG, TickClaim { takeovers, ..ask(tick) });
    let lease = bench.win(&with("a", 0)).await;
    bench.release(&lease, RunOutcome::Cancelled).await;
    let verdict = bench.verdict(&with("b", 5)).await;
    assert_eq!((verdict.decision, verdict.unfinished), (started("a", lease.since, false), None));

    let later = bench.tick_now().await;
    let with = |server: &str, takeovers| claim_with(server, LONG, TickClaim { takeovers, ..ask(later) });
    for (server, takeovers, attempt) in [("a", 1, 1), ("b", 7, 2)] {
        let lease = bench.win(&with(server, takeovers)).await;
        assert_eq!(lease.attempt, attempt);
        bench.release(&lease, RunOutcome::Cancelled).await;
    }
    let refused = bench.claim(&with("c", 7)).await;
    assert!(matches!(refused, ClaimDecision::Taken(Taken::Started { finished: false, .. })), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn claim_that_only_takes_over_starts_no_lost_tick() {
    let bench = bench();
    let tick = bench.tick_ago(SHORT).await;
    let retried = TickClaim { takeovers: 1, ..ask(tick) };
    let lease = bench.win(&claim_with("a", LONG, retried.clone())).await;
    bench.release(&lease, RunOutcome::Cancelled).await;
    let takeover = claim_with("b", LONG, TickClaim { only_takes_over: true, ..retried });
    bench.wipe().await;
    let reply = bench.claim(&takeover).await;
    assert!(matches!(reply, ClaimDecision::Late(_)), "{reply:?}");
    assert_eq!(bench.history().await.runs, []);
}

#[tokio::test(start_paused = true)]
async fn claim_that_only_takes_over_takes_over() {
    let bench = bench();
    let tick = bench.tick_ago(SHORT).await;
    let retried = TickClaim { takeovers: 1, ..ask(tick) };
    let lease = bench.win(&claim_with("a", LONG, retried.clone())).await;
    let takeover = claim_with("b", LONG, TickClaim { only_takes_over: true, ..retried });
    assert_eq!(bench.claim(&takeover).await, started("a", lease.since, false), "while the first run goes on");
    bench.release(&lease, RunOutcome::Cancelled).await;
    assert_eq!(bench.win(&takeover).await.attempt, 2);
}

#[tokio::test(start_paused = true)]
async fn requested_run_carries_the_id_of_its_request() {
    let bench = bench();
    bench.request("one", LONG).await;
    let lease = bench.win(&claim_requested("a", "one")).await;
    assert_eq!(bench.history().await.current.expect("a run").request.as_deref(), Some("one"));
    bench.release(&lease, RunOutcome::Succeeded).await;
    assert_eq!(bench.newest_run().await.request.as_deref(), Some("one"));

    bench.request("two", LONG).await;
    let lease = bench.win(&claim_requested("a", "two")).await;
    bench.wipe().await;
    assert_eq!(bench.release(&lease, RunOutcome::Succeeded).await, ReleaseReply::Restored);
    assert_eq!(bench.newest_run().await.request.as_deref(), Some("two"));
    bench.finish(&claim_now("a", LONG)).await;
    assert_eq!(bench.newest_run().await.request, None);
}

#[tokio::test(start_paused = true)]
async fn slots_are_in_a_record_of_their_own() {
    let bench = bench();
    let slot = bench.win(&claim_what("a", LONG, ClaimPurpose::Slot(2))).await;
    assert_eq!(bench.look().await.version, None);
    let slots = bench.on("import-products#slots").look().await;
    assert_eq!((slots.state.slots.len(), slots.fence), (1, slot.fence));
    let lock = bench.win(&claim_what("b", LONG, ClaimPurpose::Lock)).await;
    bench.release(&lock, RunOutcome::Succeeded).await;
    assert_eq!(bench.look().await.version, None, "the lock's record is deleted");
    holder(bench.claim(&claim_what("c", LONG, ClaimPurpose::Slot(1))).await);
}

#[tokio::test(start_paused = true)]
async fn record_of_slots_expires_after_twice_their_ttl() {
    let bench = bench();
    let slot = bench.win(&claim_what("a", LONG, ClaimPurpose::Slot(2))).await;
    bench.release(&slot, RunOutcome::Succeeded).await;
    let expires = bench.on("import-products#slots").look().await.state.expires.expect("an expiry");
    let bound = slot.since + 2 * LONG;
    assert!(expires >= bound && expires <= bound + Duration::from_millis(1), "{expires} {bound}");
}
