//! Manual locks: work that is done once, records that are deleted, what is listed, and what an operator breaks.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::fleet::LeaseKind;
use crate::history::{History, RunOutcome};
use crate::store::{
    ClaimDecision, ClaimPurpose, Ending, ExtendReply, ReleaseReply, Swap, SwapReply, decide, record_key,
};
use crate::testing::store::Client;
use crate::testing::{Hook, HookFuture, Intercept, Request};

use super::{LOST, bench, subject};
use crate::testing::store::bench::{Bench, DAY, LONG, MOMENT, SHORT, claim, claim_what, ending, holder};

pub(crate) mod slots;

fn done_for(span: Duration) -> Ending {
    Ending { done_for: Some(span), ..ending(RunOutcome::Succeeded) }
}

#[tokio::test(start_paused = true)]
async fn manual_lock_excludes_runs_and_other_locks() {
    let bench = bench();
    let lock = bench.win(&claim_what("a", LONG, ClaimPurpose::Lock)).await;
    for what in [ClaimPurpose::Lock, ClaimPurpose::Once, ClaimPurpose::Leader, ClaimPurpose::Now] {
        assert_eq!(holder(bench.claim(&claim_what("b", LONG, what)).await).server.as_deref(), Some("a"));
    }
    let tick = bench.tick_now().await;
    assert_eq!(holder(bench.claim(&claim("b", tick)).await).server.as_deref(), Some("a"));
    assert_eq!(bench.release(&lock, RunOutcome::Succeeded).await, ReleaseReply::Released);
    bench.win(&claim_what("b", LONG, ClaimPurpose::Leader)).await;
}

#[tokio::test(start_paused = true)]
async fn fences_of_all_kinds_of_locks_grow_together() {
    let bench = bench();
    let mut last = 0;
    for what in
        [ClaimPurpose::Lock, ClaimPurpose::Now, ClaimPurpose::Once, ClaimPurpose::Leader, ClaimPurpose::Lock]
    {
        let lease = bench.win(&claim_what("a", LONG, what)).await;
        assert!(lease.fence > last, "{} after {last}", lease.fence);
        last = lease.fence;
        bench.release(&lease, RunOutcome::Succeeded).await;
        // The record of a manual lock is deleted: then the store's clock alone orders the fences.
        tokio::time::sleep(MOMENT).await;
    }
}

#[tokio::test(start_paused = true)]
async fn work_that_was_done_once_is_not_done_again() {
    let bench = bench();
    let lease = bench.win(&claim_what("a", LONG, ClaimPurpose::Once)).await;
    let before = bench.now().await;
    bench.release_with(&lease, &done_for(LONG)).await;
    let after = bench.now().await;
    match bench.claim(&claim_what("b", LONG, ClaimPurpose::Once)).await {
        ClaimDecision::Done(at) => assert!(before <= at && at <= after, "{at}"),
        other => panic!("it was done: {other:?}"),
    }
    // The mark refuses no other kind of claim.
    bench.win(&claim_what("b", LONG, ClaimPurpose::Lock)).await;
}

#[tokio::test(start_paused = true)]
async fn work_that_failed_may_be_tried_again() {
    let bench = bench();
    for outcome in [RunOutcome::Failed, RunOutcome::Panicked, RunOutcome::Cancelled] {
        let lease = bench.win(&claim_what("a", LONG, ClaimPurpose::Once)).await;
        bench.release(&lease, outcome).await;
    }
    bench.win(&claim_what("b", LONG, ClaimPurpose::Once)).await;
}

#[tokio::test(start_paused = true)]
async fn done_mark_expires() {
    let bench = bench();
    let lease = bench.win(&claim_what("a", LONG, ClaimPurpose::Once)).await;
    bench.release_with(&lease, &done_for(SHORT)).await;
    tokio::time::sleep(SHORT + MOMENT).await;
    bench.win(&claim_what("b", LONG, ClaimPurpose::Once)).await;
}

#[tokio::test(start_paused = true)]
async fn holder_that_lost_its_lease_marks_nothing_as_done() {
    let bench = bench();
    let mut late = bench.win(&claim_what("a", LONG, ClaimPurpose::Once)).await;
    bench.shorten(&mut late).await;
    bench.outlive(&late).await;
    let successor = bench.win(&claim_what("b", LONG, ClaimPurpose::Once)).await;
    assert_eq!(bench.release_with(&late, &done_for(LONG)).await, ReleaseReply::NotHeld);
    bench.release(&successor, RunOutcome::Failed).await;
    bench.win(&claim_what("c", LONG, ClaimPurpose::Once)).await;
}

#[tokio::test(start_paused = true)]
async fn after_a_wipe_a_release_restores_the_done_mark() {
    let bench = bench();
    let lease = bench.win(&claim_what("a", LONG, ClaimPurpose::Once)).await;
    bench.wipe().await;
    assert_eq!(bench.release_with(&lease, &done_for(LONG)).await, ReleaseReply::Restored);
    let again = bench.claim(&claim_what("b", LONG, ClaimPurpose::Once)).await;
    assert!(matches!(again, ClaimDecision::Done(_)), "{again:?}");
}

#[tokio::test(start_paused = true)]
async fn record_of_a_manual_lock_is_deleted_at_its_release() {
    let bench = bench();
    for what in [ClaimPurpose::Lock, ClaimPurpose::Once, ClaimPurpose::Leader] {
        let lease = bench.win(&claim_what("a", LONG, what)).await;
        assert_ne!(bench.look().await.version, None);
        assert_eq!(bench.release(&lease, RunOutcome::Succeeded).await, ReleaseReply::Released);
        assert_eq!(bench.look().await.version, None);
        assert_eq!(bench.release(&lease, RunOutcome::Succeeded).await, ReleaseReply::NotHeld);
        assert_eq!(bench.look().await.version, None, "a repeated release writes nothing");
    }
}

#[tokio::test(start_paused = true)]
async fn manual_lock_leaves_no_run_records() {
    let bench = bench();
    bench.finish(&claim_what("a", LONG, ClaimPurpose::Now)).await;
    let before = bench.history().await;
    bench.finish(&claim_what("a", LONG, ClaimPurpose::Lock)).await;
    let crashed = bench.win(&claim_what("a", SHORT, ClaimPurpose::Leader)).await;
    bench.outlive(&crashed).await;
    assert_eq!(bench.history().await, before, "a manual lock is no run, and does not crash");
    let lease = bench.win(&claim_what("b", LONG, ClaimPurpose::Now)).await;
    let after = bench.history().await;
    assert_eq!((after.runs, after.stats), (before.runs, before.stats));
    bench.release(&lease, RunOutcome::Succeeded).await;
}

#[tokio::test(start_paused = true)]
async fn record_of_a_manual_lock_stays_while_its_done_mark_counts() {
    let bench = bench();
    let lease = bench.win(&claim_what("a", LONG, ClaimPurpose::Once)).await;
    bench.release_with(&lease, &done_for(DAY)).await;
    assert_ne!(bench.look().await.version, None);
    let lock = bench.win(&claim_what("a", LONG, ClaimPurpose::Lock)).await;
    bench.release(&lock, RunOutcome::Succeeded).await;
    let again = bench.claim(&claim_what("b", LONG, ClaimPurpose::Once)).await;
    assert!(matches!(again, ClaimDecision::Done(_)), "{again:?}");
}

#[tokio::test(start_paused = true)]
async fn record_of_a_manual_lock_stays_while_a_broken_lease_could_be_restored() {
    let bench = bench();
    let broken = bench.win(&claim_what("a", LONG, ClaimPurpose::Lock)).await;
    bench.break_lock().await;
    let next = bench.win(&claim_what("b", LONG, ClaimPurpose::Lock)).await;
    bench.release(&next, RunOutcome::Succeeded).await;
    assert_ne!(bench.look().await.version, None);
    assert_eq!(bench.extend(&broken).await, LOST);

    tokio::time::sleep(2 * LONG).await;
    let last = bench.win(&claim_what("b", LONG, ClaimPurpose::Lock)).await;
    bench.release(&last, RunOutcome::Succeeded).await;
    assert_eq!(bench.look().await.version, None);
    assert_eq!(bench.extend(&broken).await, LOST);
}

#[tokio::test(start_paused = true)]
async fn record_of_an_abandoned_manual_lock_expires_after_twice_its_ttl() {
    let bench = bench();
    let lease = bench.win(&claim_what("a", LONG, ClaimPurpose::Lock)).await;
    let expires = bench.look().await.state.expires.expect("an expiry");
    assert!(expires >= lease.since + 2 * LONG && expires <= lease.until + LONG, "{expires}");
    tokio::time::sleep(2 * LONG).await;
    assert_eq!(bench.history().await, History::default());
}

#[tokio::test(start_paused = true)]
async fn record_of_a_job_stays_after_a_manual_lock_of_the_same_key() {
    let bench = bench();
    bench.finish(&claim_what("a", SHORT, ClaimPurpose::Now)).await;
    let lock = bench.win(&claim_what("a", SHORT, ClaimPurpose::Lock)).await;
    bench.release(&lock, RunOutcome::Succeeded).await;
    tokio::time::sleep(DAY).await;
    assert_eq!(bench.history().await.runs.len(), 1);
    let record = bench.look().await;
    assert!(record.state.expires.is_none() && record.fence > 0, "{record:?}");
}

#[tokio::test(start_paused = true)]
async fn first_question_of_a_manual_lock_needs_no_look() {
    let bench = bench();
    let requests = Recorded::default();
    let client = Client::of(Arc::new(Intercept::new(bench.store.clone(), requests.clone())));
    client.ping().await.expect("a ping");
    requests.take();
    let won =
        client.claim_first(&bench.key, &claim_what("a", LONG, ClaimPurpose::Lock)).await.expect("an answer");
    assert!(matches!(won.reply.decision, ClaimDecision::Won(_)), "{won:?}");
    assert_eq!(requests.take(), ["swap"]);
    let held =
        client.claim_first(&bench.key, &claim_what("b", LONG, ClaimPurpose::Lock)).await.expect("an answer");
    assert_eq!(holder(held.reply.decision).server.as_deref(), Some("a"));
    assert_eq!(requests.take(), ["swap"], "the refusal shows the key");
}

/// The names of the requests that were sent.
#[derive(Clone, Default)]
struct Recorded(Arc<Mutex<Vec<&'static str>>>);

impl Recorded {
    fn take(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Hook for Recorded {
    fn before<'a>(&'a self, request: Request<'a>) -> HookFuture<'a> {
        self.0.lock().unwrap().push(match request {
            Request::Look(_) => "look",
            Request::Swap(..) => "swap",
            _ => "other",
        });
        Box::pin(std::future::ready(Ok(())))
    }
}

#[tokio::test(start_paused = true)]
async fn held_locks_and_slots_are_listed_with_their_kind() {
    let bench = bench();
    let (lock, other) = (bench.on("listed-lock"), bench.on("listed-slots"));
    let leader = lock.win(&claim_what("a", LONG, ClaimPurpose::Leader)).await;
    let slot = other.win(&claim_what("b", LONG, ClaimPurpose::Slot(3))).await;
    let locks = bench.locks().await;
    let held =
        |key: &str| locks.iter().find(|held| held.key == key).unwrap_or_else(|| panic!("{key}: {locks:?}"));
    let found = held("listed-lock");
    assert_eq!((found.kind, found.fence), (Some(LeaseKind::Leader), Some(leader.fence)));
    assert_eq!((found.holder.server.as_deref(), found.holder.since), (Some("a"), Some(leader.since)));
    let found = held("listed-slots");
    assert_eq!((found.kind, found.fence), (Some(LeaseKind::Slot { of: 3 }), Some(slot.fence)));
    lock.release(&leader, RunOutcome::Succeeded).await;
    other.release(&slot, RunOutcome::Succeeded).await;
    let locks = bench.locks().await;
    assert!(!locks.iter().any(|held| held.key.starts_with("listed-")), "{locks:?}");
}

#[tokio::test(start_paused = true)]
async fn foreign_lock_is_listed_without_a_holder() {
    let bench = bench();
    let foreign = bench.on("listed-foreign");
    foreign.foreign_lock(LONG).await;
    let locks = bench.locks().await;
    let found = locks.iter().find(|held| held.key == "listed-foreign").expect("it is held");
    assert_eq!((found.kind, found.fence, found.holder.server.as_ref()), (None, None, None));
}

#[tokio::test(start_paused = true)]
async fn broken_lock_is_free_and_lost_to_its_holder() {
    let bench = bench();
    for what in [ClaimPurpose::Lock, ClaimPurpose::Now] {
        let (kind, is_run) = (what.kind(), matches!(what, ClaimPurpose::Now));
        let lease = bench.win(&claim_what("a", LONG, what)).await;
        let broken = bench.break_lock().await;
        assert_eq!(broken.len(), 1, "{broken:?}");
        assert_eq!((broken[0].kind, broken[0].fence), (Some(kind), Some(lease.fence)));
        bench.lock_is(None).await;
        assert_eq!(bench.extend(&lease).await, ExtendReply::Lost { broken_by: Some("client".into()) });
        assert_eq!(bench.release(&lease, RunOutcome::Succeeded).await, ReleaseReply::NotHeld);
        let next = bench.win(&claim_what("b", LONG, ClaimPurpose::Lock)).await;
        assert!(next.fence > lease.fence);
        assert_eq!(bench.extend(&lease).await, LOST, "its successor's record names no operator");
        bench.release(&next, RunOutcome::Succeeded).await;
        let runs = bench.history().await.runs;
        let expected: Vec<_> = is_run.then_some((RunOutcome::Broken, lease.fence)).into_iter().collect();
        let runs: Vec<_> = runs.iter().map(|run| (run.outcome, run.fence)).collect();
        assert_eq!(runs, expected, "one record of a run, none of a lock");
    }
}

#[tokio::test(start_paused = true)]
async fn breaking_a_free_key_changes_nothing() {
    let bench = bench();
    assert_eq!(bench.break_lock().await, []);
    let lease = bench.finish(&claim_what("a", LONG, ClaimPurpose::Now)).await;
    assert_eq!(bench.break_lock().await, []);
    let record = bench.newest_run().await;
    assert_eq!((record.outcome, record.fence), (RunOutcome::Succeeded, lease.fence));
}

#[tokio::test(start_paused = true)]
async fn foreign_lock_can_be_broken() {
    let bench = bench();
    bench.foreign_lock(LONG).await;
    assert_eq!(bench.break_lock().await.len(), 1);
    bench.lock_is(None).await;
    bench.win(&claim_what("a", LONG, ClaimPurpose::Lock)).await;
}

/// Every extension is a swap from one version: a copy of it that arrives after another one finds a newer version.
#[tokio::test(start_paused = true)]
async fn late_copy_of_an_extension_shortens_nothing() {
    let subject = &subject();
    for what in [ClaimPurpose::Lock, ClaimPurpose::Slot(1)] {
        let bench = Bench::of(subject).on(what.kind().as_str());
        let mut lease = bench.win(&claim_what("a", SHORT, what.clone())).await;
        let key = record_key(&bench.key, what.kind()).into_owned();
        let look = bench.store.look(&key).await.expect("a look");
        let copy = Swap {
            expected: look.version,
            expected_lock: look.lock.map(|lock| lock.token),
            nonce: 7,
            change: decide::extend(&bench.store.look(&key).await.expect("a look"), &lease)
                .change
                .expect("an extension is written"),
        };
        lease.ttl = LONG;
        bench.keep(&mut lease).await;
        let reply = bench.store.swap(&key, &copy).await.expect("an answer");
        assert!(matches!(reply, SwapReply::Changed(_)), "{reply:?}");
        // The holder itself may shorten its lease.
        let longer = lease.until;
        bench.shorten(&mut lease).await;
        assert!(lease.until < longer, "{} {longer}", lease.until);
    }
}
