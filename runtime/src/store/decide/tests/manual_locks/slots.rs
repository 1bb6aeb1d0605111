//! Semaphores: a number of slots, each held by a lease of its own.

use crate::history::RunOutcome;
use crate::store::{ClaimPurpose, ExtendReply, Lease, ReleaseReply};

use crate::store::decide::tests::{LOST, bench};
use crate::testing::store::bench::{LONG, MOMENT, SHORT, claim_what, holder};

fn slot(server: &str, of: u32) -> crate::store::Claim {
    claim_what(server, LONG, ClaimPurpose::Slot(of))
}

#[tokio::test(start_paused = true)]
async fn as_many_slots_are_held_as_there_are() {
    let bench = bench();
    let first = bench.win(&slot("a", 2)).await;
    let second = bench.win(&slot("b", 2)).await;
    assert!(second.fence > first.fence);
    let held = holder(bench.claim(&slot("c", 2)).await);
    assert_eq!((held.server.as_deref(), held.since), (Some("a"), Some(first.since)), "the first to end");
    assert_eq!(bench.release(&first, RunOutcome::Succeeded).await, ReleaseReply::Released);
    bench.win(&slot("c", 2)).await;
    holder(bench.claim(&slot("d", 2)).await);
}

#[tokio::test(start_paused = true)]
async fn slots_and_the_lock_of_a_key_are_independent() {
    let bench = bench();
    bench.win(&slot("a", 1)).await;
    let lock = bench.win(&claim_what("b", LONG, ClaimPurpose::Lock)).await;
    holder(bench.claim(&slot("c", 1)).await);
    bench.release(&lock, RunOutcome::Succeeded).await;
    holder(bench.claim(&slot("c", 1)).await);
}

#[tokio::test(start_paused = true)]
async fn repeated_claim_of_a_slot_returns_the_same_slot() {
    let bench = bench();
    let claim = slot("a", 1);
    let won = bench.won(&claim).await;
    assert_eq!(bench.won(&claim).await, won);
    holder(bench.claim(&slot("b", 1)).await);
}

#[tokio::test(start_paused = true)]
async fn slot_that_ended_is_free_and_its_holder_has_lost_it() {
    let bench = bench();
    let mut lease = bench.win(&slot("a", 1)).await;
    bench.shorten(&mut lease).await;
    bench.outlive(&lease).await;
    let next = bench.win(&slot("b", 1)).await;
    assert!(next.fence > lease.fence);
    assert_eq!(bench.extend(&lease).await, LOST);
    assert_eq!(bench.release(&lease, RunOutcome::Succeeded).await, ReleaseReply::NotHeld);
    holder(bench.claim(&slot("c", 1)).await);
}

#[tokio::test(start_paused = true)]
async fn extended_slot_outlives_its_first_ttl() {
    let bench = bench();
    // Long enough for a slow machine to extend it in time.
    let mut lease = bench.win(&claim_what("a", 4 * SHORT, ClaimPurpose::Slot(1))).await;
    lease.ttl = LONG;
    bench.keep(&mut lease).await;
    tokio::time::sleep(4 * SHORT + MOMENT).await;
    holder(bench.claim(&slot("b", 1)).await);
}

#[tokio::test(start_paused = true)]
async fn lower_limit_takes_effect_as_slots_are_released() {
    let bench = bench();
    let mut leases = Vec::new();
    for server in ["a", "b", "c"] {
        leases.push(bench.win(&slot(server, 3)).await);
    }
    // Every holder keeps its slot.
    for lease in &leases {
        let fewer = Lease { kind: crate::fleet::LeaseKind::Slot { of: 1 }, ..lease.clone() };
        assert!(matches!(bench.extend(&fewer).await, ExtendReply::Kept { .. }));
    }
    for lease in &leases {
        holder(bench.claim(&slot("d", 1)).await);
        bench.release(lease, RunOutcome::Succeeded).await;
    }
    bench.win(&slot("d", 1)).await;
    holder(bench.claim(&slot("e", 1)).await);
}

#[tokio::test(start_paused = true)]
async fn abandoned_claim_frees_its_slot() {
    let bench = bench();
    let lease = bench.win(&slot("a", 1)).await;
    let abandoned = Lease { fence: crate::store::decide::UNKNOWN_FENCE, ..lease };
    assert_eq!(bench.release(&abandoned, RunOutcome::NotStarted).await, ReleaseReply::Released);
    bench.win(&slot("b", 1)).await;
}

#[tokio::test(start_paused = true)]
async fn after_a_wipe_holders_get_their_slots_back_while_there_is_room() {
    let bench = bench();
    let mut leases = Vec::new();
    for server in ["a", "b", "c"] {
        leases.push(bench.win(&slot(server, 3)).await);
    }
    bench.wipe().await;
    bench.win(&slot("d", 3)).await;
    let restored: Vec<_> = [bench.extend(&leases[2]).await, bench.extend(&leases[0]).await].into();
    assert!(restored.iter().all(|reply| matches!(reply, ExtendReply::Restored(_))), "{restored:?}");
    assert_eq!(bench.extend(&leases[1]).await, LOST, "there is no room for it any more");
    holder(bench.claim(&slot("e", 3)).await);
}

#[tokio::test(start_paused = true)]
async fn broken_slot_is_free_and_lost_to_its_holder() {
    let bench = bench();
    let first = bench.win(&slot("a", 2)).await;
    bench.win(&slot("b", 2)).await;
    assert_eq!(bench.break_lock().await.len(), 2);
    assert_eq!(bench.extend(&first).await, LOST);
    bench.win(&slot("c", 2)).await;
    bench.win(&slot("d", 2)).await;
    holder(bench.claim(&slot("e", 2)).await);
}

#[tokio::test(start_paused = true)]
async fn slot_that_was_restored_after_a_wipe_can_be_broken() {
    let bench = bench();
    let lease = bench.win(&slot("a", 1)).await;
    bench.wipe().await;
    assert!(matches!(bench.extend(&lease).await, ExtendReply::Restored(_)));
    assert_eq!(bench.break_lock().await.len(), 1);
    assert_eq!(bench.extend(&lease).await, LOST);
    bench.win(&slot("b", 1)).await;
}
