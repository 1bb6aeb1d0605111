//! Locks by hand: work that is done once, what goes away by itself, what is listed, and what an operator breaks.

use std::time::Duration;

use crate::store::{ClaimReply, Ending, ExtendReply, History, Kind, ReleaseReply, RunOutcome, What};

use super::super::Subject;
use super::super::bench::{Bench, LONG, MOMENT, SHORT, claim, claim_what, ending, holder};

fn done_for(span: Duration) -> Ending {
    Ending { done_for: Some(span), ..ending(RunOutcome::Succeeded) }
}

pub(super) async fn a_lock_by_hand_excludes_runs_and_other_locks(subject: &Subject) {
    let bench = Bench::of(subject);
    let lock = bench.win(&claim_what("a", LONG, What::Lock)).await;
    for what in [What::Lock, What::Once, What::Leader, What::Now] {
        assert_eq!(holder(bench.claim(&claim_what("b", LONG, what)).await).server.as_deref(), Some("a"));
    }
    let tick = bench.tick_now().await;
    assert_eq!(holder(bench.claim(&claim("b", tick)).await).server.as_deref(), Some("a"));
    assert_eq!(bench.release(&lock, RunOutcome::Succeeded).await, ReleaseReply::Released);
    bench.win(&claim_what("b", LONG, What::Leader)).await;
}

pub(super) async fn fences_of_all_kinds_of_locks_grow_together(subject: &Subject) {
    let bench = Bench::of(subject);
    let mut last = 0;
    for what in [What::Lock, What::Now, What::Once, What::Leader, What::Lock] {
        let lease = bench.win(&claim_what("a", LONG, what)).await;
        assert!(lease.fence > last, "{} after {last}", lease.fence);
        last = lease.fence;
        bench.release(&lease, RunOutcome::Succeeded).await;
    }
}

pub(super) async fn what_was_done_once_is_not_done_again(subject: &Subject) {
    let bench = Bench::of(subject);
    let lease = bench.win(&claim_what("a", LONG, What::Once)).await;
    let before = bench.now().await;
    bench.release_with(&lease, &done_for(LONG)).await;
    let after = bench.now().await;
    match bench.claim(&claim_what("b", LONG, What::Once)).await {
        ClaimReply::Done(at) => assert!(before <= at && at <= after, "{at}"),
        other => panic!("it was done: {other:?}"),
    }
    // The mark is in nobody else's way.
    bench.win(&claim_what("b", LONG, What::Lock)).await;
}

pub(super) async fn what_failed_may_be_tried_again(subject: &Subject) {
    let bench = Bench::of(subject);
    for outcome in [RunOutcome::Failed, RunOutcome::Panicked, RunOutcome::Cancelled] {
        let lease = bench.win(&claim_what("a", LONG, What::Once)).await;
        bench.release(&lease, outcome).await;
    }
    bench.win(&claim_what("b", LONG, What::Once)).await;
}

pub(super) async fn a_done_mark_expires(subject: &Subject) {
    let bench = Bench::of(subject);
    let lease = bench.win(&claim_what("a", LONG, What::Once)).await;
    bench.release_with(&lease, &done_for(SHORT)).await;
    tokio::time::sleep(SHORT + MOMENT).await;
    bench.win(&claim_what("b", LONG, What::Once)).await;
}

pub(super) async fn who_lost_its_lease_to_another_marks_nothing_as_done(subject: &Subject) {
    let bench = Bench::of(subject);
    let mut late = bench.win(&claim_what("a", LONG, What::Once)).await;
    bench.shorten(&mut late).await;
    bench.outlive(&late).await;
    let successor = bench.win(&claim_what("b", LONG, What::Once)).await;
    assert_eq!(bench.release_with(&late, &done_for(LONG)).await, ReleaseReply::NotHeld);
    bench.release(&successor, RunOutcome::Failed).await;
    bench.win(&claim_what("c", LONG, What::Once)).await;
}

pub(super) async fn after_a_wipe_a_release_restores_the_done_mark(subject: &Subject) {
    let bench = Bench::of(subject);
    let lease = bench.win(&claim_what("a", LONG, What::Once)).await;
    bench.wipe().await;
    assert_eq!(bench.release_with(&lease, &done_for(LONG)).await, ReleaseReply::Restored);
    let again = bench.claim(&claim_what("b", LONG, What::Once)).await;
    assert!(matches!(again, ClaimReply::Done(_)), "{again:?}");
}

pub(super) async fn nothing_is_remembered_of_a_key_without_a_job_after_a_while(subject: &Subject) {
    let bench = Bench::of(subject);
    let lease = bench.win(&claim_what("a", SHORT, What::Lock)).await;
    bench.release(&lease, RunOutcome::Succeeded).await;
    tokio::time::sleep(2 * SHORT + MOMENT).await;
    assert_eq!(bench.history().await, History::default());
}

pub(super) async fn what_a_job_has_stays(subject: &Subject) {
    let bench = Bench::of(subject);
    // Long enough for a slow machine to come to the next step before the lock's record goes away.
    let ttl = 4 * SHORT;
    let lock = bench.win(&claim_what("a", ttl, What::Lock)).await;
    bench.release(&lock, RunOutcome::Succeeded).await;
    bench.finish(&claim_what("a", ttl, What::Now)).await;
    tokio::time::sleep(2 * ttl + MOMENT).await;
    assert_eq!(bench.history().await.runs.len(), 2, "the lock's, too");
}

pub(super) async fn what_is_held_is_listed_with_its_kind(subject: &Subject) {
    let bench = Bench::of(subject);
    let (lock, other) = (bench.on("listed-lock"), bench.on("listed-slots"));
    let leader = lock.win(&claim_what("a", LONG, What::Leader)).await;
    let slot = other.win(&claim_what("b", LONG, What::Slot(3))).await;
    let locks = bench.locks().await;
    let held =
        |key: &str| locks.iter().find(|held| held.key == key).unwrap_or_else(|| panic!("{key}: {locks:?}"));
    let found = held("listed-lock");
    assert_eq!((found.kind, found.fence), (Some(Kind::Leader), Some(leader.fence)));
    assert_eq!((found.holder.server.as_deref(), found.holder.since), (Some("a"), Some(leader.since)));
    let found = held("listed-slots");
    assert_eq!((found.kind, found.fence), (Some(Kind::Slot { of: 3 }), Some(slot.fence)));
    lock.release(&leader, RunOutcome::Succeeded).await;
    other.release(&slot, RunOutcome::Succeeded).await;
    let locks = bench.locks().await;
    assert!(!locks.iter().any(|held| held.key.starts_with("listed-")), "{locks:?}");
}

pub(super) async fn a_strangers_lock_is_listed_as_nobodys(subject: &Subject) {
    let bench = Bench::of(subject);
    let stranger = bench.on("listed-stranger");
    stranger.stranger_locks(LONG).await;
    let locks = bench.locks().await;
    let found = locks.iter().find(|held| held.key == "listed-stranger").expect("it is held");
    assert_eq!((found.kind, found.fence, found.holder.server.as_ref()), (None, None, None));
}

pub(super) async fn a_broken_lock_is_free_on_record_and_lost_to_its_holder(subject: &Subject) {
    let bench = Bench::of(subject);
    let lease = bench.win(&claim_what("a", LONG, What::Lock)).await;
    let broken = bench.break_lock().await;
    assert_eq!(broken.len(), 1, "{broken:?}");
    assert_eq!((broken[0].kind, broken[0].fence), (Some(Kind::Lock), Some(lease.fence)));
    assert_eq!(bench.extend(&lease).await, ExtendReply::Lost);
    assert_eq!(bench.release(&lease, RunOutcome::Succeeded).await, ReleaseReply::NotHeld);
    let record = bench.newest_run().await;
    assert_eq!((record.outcome, record.fence), (RunOutcome::Broken, lease.fence));
    let next = bench.win(&claim_what("b", LONG, What::Lock)).await;
    assert!(next.fence > lease.fence);
    assert_eq!(bench.history().await.runs.len(), 1, "one record, however it ended");
}

pub(super) async fn breaking_what_nobody_holds_breaks_nothing(subject: &Subject) {
    let bench = Bench::of(subject);
    assert_eq!(bench.break_lock().await, []);
    let lease = bench.finish(&claim_what("a", LONG, What::Now)).await;
    assert_eq!(bench.break_lock().await, []);
    let record = bench.newest_run().await;
    assert_eq!((record.outcome, record.fence), (RunOutcome::Succeeded, lease.fence));
}

pub(super) async fn a_strangers_lock_can_be_broken(subject: &Subject) {
    let bench = Bench::of(subject);
    bench.stranger_locks(LONG).await;
    assert_eq!(bench.break_lock().await.len(), 1);
    bench.lock_is(None).await;
    bench.win(&claim_what("a", LONG, What::Lock)).await;
}
