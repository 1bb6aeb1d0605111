//! Leases: won, extended, released, expired.

use std::time::Duration;

use crate::history::RunOutcome;
use crate::store::decide::UNKNOWN_FENCE;
use crate::store::{ClaimDecision, Lease, ReleaseReply};

use super::{LOST, bench, subject};
use crate::testing::store::bench::{
    Bench, LONG, MOMENT, SHORT, ask, claim, claim_now, claim_with, holder, started,
};

pub(crate) mod clocks;
pub(crate) mod healing;
pub(crate) mod interleavings;

#[tokio::test(start_paused = true)]
async fn held_key_is_refused_until_it_is_released() {
    let bench = bench();
    let first = bench.win(&claim_now("a", LONG)).await;
    bench.lock_is(Some(&first.token)).await;
    assert_eq!(holder(bench.claim(&claim_now("b", LONG)).await).server.as_deref(), Some("a"));

    assert_eq!(bench.release(&first, RunOutcome::Succeeded).await, ReleaseReply::Released);
    bench.lock_is(None).await;
    bench.win(&claim_now("b", LONG)).await;
}

#[tokio::test(start_paused = true)]
async fn two_keys_are_independent() {
    let subject = &subject();
    let (one, other) = (Bench::with_key(subject, "one"), Bench::with_key(subject, "other"));
    let tick = one.tick_ago(SHORT).await;
    let lease = one.win(&claim("a", tick)).await;
    other.win(&claim("b", tick)).await;
    one.release(&lease, RunOutcome::Succeeded).await;
    assert_eq!(holder(other.claim(&claim_now("c", LONG)).await).server.as_deref(), Some("b"));
}

#[tokio::test(start_paused = true)]
async fn expired_lease_is_free() {
    let bench = bench();
    let lease = bench.win(&claim_now("a", SHORT)).await;
    assert!(lease.until.since(lease.since) >= SHORT, "{lease:?}");
    bench.outlive(&lease).await;
    bench.lock_is(None).await;
    bench.win(&claim_now("b", LONG)).await;
}

#[tokio::test(start_paused = true)]
async fn stale_token_can_neither_extend_nor_release_its_successors_lease() {
    let bench = bench();
    let tick = bench.tick_ago(Duration::from_secs(2)).await;
    let stale = bench.win(&claim_with("a", SHORT, ask(tick))).await;
    bench.outlive(&stale).await;
    let later = tick + Duration::from_secs(1);
    let successor = bench.win(&claim("b", later)).await;

    assert_eq!(bench.extend(&stale).await, LOST);
    assert_eq!(bench.release(&stale, RunOutcome::Succeeded).await, ReleaseReply::NotHeld);
    bench.lock_is(Some(&successor.token)).await;
    assert_eq!(bench.claim(&claim("c", later)).await, started("b", successor.since, false));
    let before = bench.now().await;
    let remaining = holder(bench.claim(&claim_now("c", LONG)).await).remaining.expect("a remaining time");
    let after = bench.now().await;
    let unchanged = successor.until.since(after)..=successor.until.since(before);
    assert!(unchanged.contains(&remaining), "{remaining:?} is not in {unchanged:?}");
}

#[tokio::test(start_paused = true)]
async fn extension_outlives_the_first_ttl_and_can_be_repeated() {
    let bench = bench();
    let first = bench.win(&claim_now("a", SHORT)).await;
    let mut lease = Lease { ttl: LONG, ..first.clone() };
    bench.keep(&mut lease).await;
    bench.outlive(&first).await;
    for _ in 0..3 {
        let known = lease.until;
        tokio::time::sleep(MOMENT).await;
        bench.keep(&mut lease).await;
        assert!(lease.until > known, "{} is not after {known}", lease.until);
    }
    bench.lock_is(Some(&lease.token)).await;
    holder(bench.claim(&claim_now("b", LONG)).await);
}

#[tokio::test(start_paused = true)]
async fn extension_is_refused_after_a_release() {
    let bench = bench();
    let lease = bench.finish(&claim_now("a", LONG)).await;
    assert_eq!(bench.extend(&lease).await, LOST);
    bench.lock_is(None).await;
}

#[tokio::test(start_paused = true)]
async fn extension_is_refused_after_the_expiry() {
    let bench = bench();
    let lease = bench.win(&claim_now("a", SHORT)).await;
    bench.outlive(&lease).await;
    assert_eq!(bench.extend(&lease).await, LOST);
    bench.lock_is(None).await;
    bench.win(&claim_now("b", LONG)).await;
}

#[tokio::test(start_paused = true)]
async fn repeated_claim_wins_again_with_the_same_fence_and_the_remaining_time() {
    let bench = bench();
    let claim = claim("a", bench.tick_ago(SHORT).await);
    let first = bench.win(&claim).await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(bench.win(&claim).await, first);
    assert_eq!(bench.history().await.runs, []);
}

#[tokio::test(start_paused = true)]
async fn repeated_claim_does_not_win_once_its_lease_is_over() {
    let bench = bench();
    let expired = claim_now("a", SHORT);
    bench.outlive(&bench.win(&expired).await).await;
    assert_eq!(bench.claim(&expired).await, ClaimDecision::Lost);

    let released = claim_now("b", LONG);
    bench.finish(&released).await;
    assert_eq!(bench.claim(&released).await, ClaimDecision::Lost);
}

#[tokio::test(start_paused = true)]
async fn abandoned_claim_frees_the_key() {
    let bench = bench();
    let tick = bench.tick_ago(SHORT).await;
    let won = bench.win(&claim("a", tick)).await;
    let abandoned = Lease { fence: UNKNOWN_FENCE, ..won };
    assert_eq!(bench.release(&abandoned, RunOutcome::NotStarted).await, ReleaseReply::Released);
    bench.lock_is(None).await;
    bench.win(&claim_now("b", LONG)).await;
}

#[tokio::test(start_paused = true)]
async fn abandoned_claim_heals_nothing() {
    let bench = bench();
    let tick = bench.tick_ago(SHORT).await;
    let won = bench.win(&claim("a", tick)).await;
    bench.wipe().await;
    let abandoned = Lease { fence: UNKNOWN_FENCE, ..won };
    assert_eq!(bench.release(&abandoned, RunOutcome::NotStarted).await, ReleaseReply::NotHeld);
    assert_eq!(bench.history().await.runs, []);
    // No server started the tick, so it is still free.
    bench.win(&claim("b", tick)).await;
}

#[tokio::test(start_paused = true)]
async fn fences_strictly_grow() {
    let bench = bench();
    let mut last = 0;
    for _ in 0..20 {
        let lease = bench.finish(&claim_now("a", LONG)).await;
        assert!(lease.fence > last, "{} is not above {last}", lease.fence);
        last = lease.fence;
    }
}
