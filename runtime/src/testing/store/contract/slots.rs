//! Slots: so many may be held at once, each by a lease of its own.

use crate::store::{ClaimReply, ExtendReply, Lease, ReleaseReply, RunOutcome, What};

use super::super::Subject;
use super::super::bench::{Bench, LONG, MOMENT, SHORT, claim_what, holder};

fn slot(server: &str, of: u32) -> crate::store::Claim {
    claim_what(server, LONG, What::Slot(of))
}

pub(super) async fn as_many_slots_are_held_as_there_are(subject: &Subject) {
    let bench = Bench::of(subject);
    let first = bench.win(&slot("a", 2)).await;
    let second = bench.win(&slot("b", 2)).await;
    assert!(second.fence > first.fence);
    let held = holder(bench.claim(&slot("c", 2)).await);
    assert_eq!((held.server.as_deref(), held.since), (Some("a"), Some(first.since)), "the first to end");
    assert_eq!(bench.release(&first, RunOutcome::Succeeded).await, ReleaseReply::Released);
    bench.win(&slot("c", 2)).await;
    holder(bench.claim(&slot("d", 2)).await);
}

pub(super) async fn slots_and_the_lock_of_a_key_are_independent(subject: &Subject) {
    let bench = Bench::of(subject);
    bench.win(&slot("a", 1)).await;
    let lock = bench.win(&claim_what("b", LONG, What::Lock)).await;
    holder(bench.claim(&slot("c", 1)).await);
    bench.release(&lock, RunOutcome::Succeeded).await;
    holder(bench.claim(&slot("c", 1)).await);
}

pub(super) async fn a_replayed_claim_is_told_of_the_slot_it_has(subject: &Subject) {
    let bench = Bench::of(subject);
    let claim = slot("a", 1);
    let won = bench.won(&claim).await;
    assert_eq!(bench.won(&claim).await, won);
    holder(bench.claim(&slot("b", 1)).await);
}

pub(super) async fn a_slot_that_ended_is_free_and_its_holder_has_lost_it(subject: &Subject) {
    let bench = Bench::of(subject);
    let mut lease = bench.win(&slot("a", 1)).await;
    bench.shorten(&mut lease).await;
    bench.outlive(&lease).await;
    let next = bench.win(&slot("b", 1)).await;
    assert!(next.fence > lease.fence);
    assert_eq!(bench.extend(&lease).await, ExtendReply::Lost);
    assert_eq!(bench.release(&lease, RunOutcome::Succeeded).await, ReleaseReply::NotHeld);
    holder(bench.claim(&slot("c", 1)).await);
}

pub(super) async fn an_extended_slot_outlives_its_first_ttl(subject: &Subject) {
    let bench = Bench::of(subject);
    // Long enough for a slow machine to extend it in time.
    let mut lease = bench.win(&claim_what("a", 4 * SHORT, What::Slot(1))).await;
    lease.ttl = LONG;
    bench.keep(&mut lease).await;
    tokio::time::sleep(4 * SHORT + MOMENT).await;
    holder(bench.claim(&slot("b", 1)).await);
}

pub(super) async fn fewer_slots_take_effect_as_they_return(subject: &Subject) {
    let bench = Bench::of(subject);
    let mut leases = Vec::new();
    for server in ["a", "b", "c"] {
        leases.push(bench.win(&slot(server, 3)).await);
    }
    // Whoever holds one keeps it.
    for lease in &leases {
        let fewer = Lease { kind: crate::store::Kind::Slot { of: 1 }, ..lease.clone() };
        assert!(matches!(bench.extend(&fewer).await, ExtendReply::Kept(_)));
    }
    for lease in &leases {
        holder(bench.claim(&slot("d", 1)).await);
        bench.release(lease, RunOutcome::Succeeded).await;
    }
    bench.win(&slot("d", 1)).await;
    holder(bench.claim(&slot("e", 1)).await);
}

pub(super) async fn an_abandoned_claim_frees_its_slot(subject: &Subject) {
    let bench = Bench::of(subject);
    let lease = bench.win(&slot("a", 1)).await;
    let abandoned = Lease { fence: crate::store::model::UNKNOWN_FENCE, ..lease };
    assert_eq!(bench.release(&abandoned, RunOutcome::NotStarted).await, ReleaseReply::Released);
    bench.win(&slot("b", 1)).await;
}

pub(super) async fn after_a_wipe_all_holders_get_their_slots_back_and_no_more(subject: &Subject) {
    let bench = Bench::of(subject);
    let mut leases = Vec::new();
    for server in ["a", "b", "c"] {
        leases.push(bench.win(&slot(server, 3)).await);
    }
    bench.wipe().await;
    bench.win(&slot("d", 3)).await;
    let restored: Vec<_> = [bench.extend(&leases[2]).await, bench.extend(&leases[0]).await].into();
    assert!(restored.iter().all(|reply| matches!(reply, ExtendReply::Restored(_))), "{restored:?}");
    assert_eq!(bench.extend(&leases[1]).await, ExtendReply::Lost, "there is no room for it any more");
    holder(bench.claim(&slot("e", 3)).await);
}

pub(super) async fn a_broken_slot_is_free_and_lost_to_its_holder(subject: &Subject) {
    let bench = Bench::of(subject);
    let first = bench.win(&slot("a", 2)).await;
    bench.win(&slot("b", 2)).await;
    assert_eq!(bench.break_lock().await.len(), 2);
    assert_eq!(bench.extend(&first).await, ExtendReply::Lost);
    bench.win(&slot("c", 2)).await;
    bench.win(&slot("d", 2)).await;
    holder(bench.claim(&slot("e", 2)).await);
}

pub(super) async fn of_many_servers_that_claim_slots_at_once_as_many_win_as_there_are(subject: &Subject) {
    let bench = &Bench::of(subject);
    let claims: Vec<_> = (0..12).map(|server| slot(&format!("s{server}"), 5)).collect();
    let mut asked = tokio::task::JoinSet::new();
    for claim in claims {
        let bench = bench.clone();
        asked.spawn(async move { bench.claim(&claim).await });
    }
    let replies = asked.join_all().await;
    let won = replies.iter().filter(|reply| matches!(reply, ClaimReply::Won(_))).count();
    assert_eq!(won, 5, "{replies:?}");
}
