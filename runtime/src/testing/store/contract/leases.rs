//! Who holds a key, for how long, and who may say so.

use std::time::Duration;

use crate::store::model::UNKNOWN_FENCE;
use crate::store::{ClaimReply, ExtendReply, Lease, ReleaseReply, RunOutcome};

use super::super::Subject;
use super::super::bench::{Bench, LONG, MOMENT, SHORT, ask, claim, claim_now, claim_with, holder, started};

pub(super) async fn a_key_can_be_locked_and_refused_and_released_and_taken_again(subject: &Subject) {
    let bench = Bench::of(subject);
    let first = bench.win(&claim_now("a", LONG)).await;
    bench.lock_is(Some(&first.token)).await;
    assert_eq!(holder(bench.claim(&claim_now("b", LONG)).await).server.as_deref(), Some("a"));

    assert_eq!(bench.release(&first, RunOutcome::Succeeded).await, ReleaseReply::Released);
    bench.lock_is(None).await;
    bench.win(&claim_now("b", LONG)).await;
}

pub(super) async fn two_keys_are_independent(subject: &Subject) {
    let (one, other) = (Bench::with_key(subject, "one"), Bench::with_key(subject, "other"));
    let tick = one.tick_ago(SHORT).await;
    let lease = one.win(&claim("a", tick)).await;
    other.win(&claim("b", tick)).await;
    one.release(&lease, RunOutcome::Succeeded).await;
    assert_eq!(holder(other.claim(&claim_now("c", LONG)).await).server.as_deref(), Some("b"));
}

pub(super) async fn an_expired_lease_is_free(subject: &Subject) {
    let bench = Bench::of(subject);
    let lease = bench.win(&claim_now("a", SHORT)).await;
    assert!(lease.until.since(lease.since) >= SHORT, "{lease:?}");
    bench.outlive(&lease).await;
    bench.lock_is(None).await;
    bench.win(&claim_now("b", LONG)).await;
}

pub(super) async fn a_stale_token_can_neither_extend_nor_release_its_successors_lease(subject: &Subject) {
    let bench = Bench::of(subject);
    let tick = bench.tick_ago(Duration::from_secs(2)).await;
    let stale = bench.win(&claim_with("a", SHORT, ask(tick))).await;
    bench.outlive(&stale).await;
    let later = tick.plus(Duration::from_secs(1));
    let successor = bench.win(&claim("b", later)).await;

    assert_eq!(bench.extend(&stale).await, ExtendReply::Lost);
    assert_eq!(bench.release(&stale, RunOutcome::Succeeded).await, ReleaseReply::NotHeld);
    bench.lock_is(Some(&successor.token)).await;
    assert_eq!(bench.claim(&claim("c", later)).await, started("b", successor.since, false));
    let before = bench.now().await;
    let remaining = holder(bench.claim(&claim_now("c", LONG)).await).remaining.expect("a remaining time");
    let after = bench.now().await;
    let unchanged = successor.until.since(after)..=successor.until.since(before);
    assert!(unchanged.contains(&remaining), "{remaining:?} is not in {unchanged:?}");
}

pub(super) async fn an_extension_outlives_the_first_ttl_and_can_be_repeated(subject: &Subject) {
    for attempt in 0.. {
        let bench = Bench::with_key(subject, &format!("attempt-{attempt}"));
        let first = bench.win(&claim_now("a", Duration::from_millis(300))).await;
        let extension = bench.extend(&Lease { ttl: LONG, ..first.clone() }).await;
        if bench.now().await >= first.until {
            continue; // The machine stalled: perhaps the extension came too late.
        }
        let ExtendReply::Kept(until) = extension else { panic!("the lease should be kept: {extension:?}") };
        bench.outlive(&first).await;
        let mut lease = Lease { ttl: LONG, until, ..first };
        for _ in 0..3 {
            let known = lease.until;
            tokio::time::sleep(MOMENT).await;
            bench.keep(&mut lease).await;
            assert!(lease.until > known, "{} is not after {known}", lease.until);
        }
        bench.lock_is(Some(&lease.token)).await;
        holder(bench.claim(&claim_now("b", LONG)).await);
        break;
    }
}

pub(super) async fn an_extension_is_refused_after_a_release(subject: &Subject) {
    let bench = Bench::of(subject);
    let lease = bench.finish(&claim_now("a", LONG)).await;
    assert_eq!(bench.extend(&lease).await, ExtendReply::Lost);
    bench.lock_is(None).await;
}

pub(super) async fn an_extension_is_refused_after_the_expiry(subject: &Subject) {
    let bench = Bench::of(subject);
    let lease = bench.win(&claim_now("a", SHORT)).await;
    bench.outlive(&lease).await;
    assert_eq!(bench.extend(&lease).await, ExtendReply::Lost);
    bench.lock_is(None).await;
    bench.win(&claim_now("b", LONG)).await;
}

pub(super) async fn a_replayed_claim_wins_again_with_the_same_fence_and_the_remaining_time(
    subject: &Subject,
) {
    let bench = Bench::of(subject);
    let claim = claim("a", bench.tick_ago(SHORT).await);
    let first = bench.win(&claim).await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(bench.win(&claim).await, first);
    assert_eq!(bench.history().await.runs, []);
}

pub(super) async fn a_replayed_claim_does_not_win_once_its_lease_is_over(subject: &Subject) {
    let bench = Bench::of(subject);
    let expired = claim_now("a", SHORT);
    bench.outlive(&bench.win(&expired).await).await;
    assert_eq!(bench.claim(&expired).await, ClaimReply::Lost);

    let released = claim_now("b", LONG);
    bench.finish(&released).await;
    assert_eq!(bench.claim(&released).await, ClaimReply::Lost);
}

pub(super) async fn an_abandoned_claim_frees_the_key(subject: &Subject) {
    let bench = Bench::of(subject);
    let tick = bench.tick_ago(SHORT).await;
    let won = bench.win(&claim("a", tick)).await;
    let abandoned = Lease { fence: UNKNOWN_FENCE, ..won };
    assert_eq!(bench.release(&abandoned, RunOutcome::NotStarted).await, ReleaseReply::Released);
    bench.lock_is(None).await;
    bench.win(&claim_now("b", LONG)).await;
}

pub(super) async fn an_abandoned_claim_heals_nothing(subject: &Subject) {
    let bench = Bench::of(subject);
    let tick = bench.tick_ago(SHORT).await;
    let won = bench.win(&claim("a", tick)).await;
    bench.wipe().await;
    let abandoned = Lease { fence: UNKNOWN_FENCE, ..won };
    assert_eq!(bench.release(&abandoned, RunOutcome::NotStarted).await, ReleaseReply::NotHeld);
    assert_eq!(bench.history().await.runs, []);
    // Nobody started the tick, so it is still to be had.
    bench.win(&claim("b", tick)).await;
}

pub(super) async fn fences_strictly_grow(subject: &Subject) {
    let bench = Bench::of(subject);
    let mut last = 0;
    for _ in 0..20 {
        let lease = bench.finish(&claim_now("a", LONG)).await;
        assert!(lease.fence > last, "{} is not above {last}", lease.fence);
        last = lease.fence;
    }
}
