//! Leases that a store has lost: which are restored, and which are not.

use std::time::Duration;

use crate::Timestamp;
use crate::history::RunOutcome;
use crate::store::{
    Change, ClaimDecision, Ending, ExtendReply, FenceChange, Lease, ReleaseReply, Swap, SwapReply, TickClaim,
};

use crate::store::decide::tests::{LOST, bench};
use crate::testing::store::bench::{LONG, SHORT, ask, claim, claim_now, claim_with, ending, holder, started};

#[tokio::test(start_paused = true)]
async fn vanished_lock_is_restored_by_the_next_extension() {
    let bench = bench();
    let mut lease = bench.win(&claim_now("a", LONG)).await;
    bench.remove_lock().await;
    bench.lock_is(None).await;
    bench.keep(&mut lease).await;
    bench.lock_is(Some(&lease.token)).await;
}

#[tokio::test(start_paused = true)]
async fn vanished_lock_does_not_free_the_key() {
    let bench = bench();
    bench.win(&claim_now("a", LONG)).await;
    bench.remove_lock().await;
    assert_eq!(holder(bench.claim(&claim_now("b", LONG)).await).server.as_deref(), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn after_a_wipe_an_extension_restores_lock_mark_and_fence() {
    let bench = bench();
    let tick = bench.tick_ago(SHORT).await;
    let lease = bench.win(&claim("a", tick)).await;
    bench.wipe().await;
    let ExtendReply::Restored(until) = bench.extend(&lease).await else { panic!("it should be restored") };
    assert!(until >= lease.until, "{until} is before {}", lease.until);

    bench.lock_is(Some(&lease.token)).await;
    assert_eq!(holder(bench.claim(&claim_now("b", LONG)).await).since, Some(lease.since));
    let taken = bench.claim(&claim("b", tick)).await;
    assert!(matches!(&taken, ClaimDecision::Taken(_)), "{taken:?}");
    bench.keep(&mut Lease { until, ..lease.clone() }).await;
    bench.release(&lease, RunOutcome::Succeeded).await;
    assert_eq!(bench.newest_run().await.fence, lease.fence);
    assert!(bench.win(&claim_now("b", LONG)).await.fence > lease.fence);
}

#[tokio::test(start_paused = true)]
async fn after_a_wipe_a_foreign_lock_is_not_replaced() {
    let bench = bench();
    let lease = bench.win(&claim_now("a", LONG)).await;
    bench.wipe().await;
    bench.foreign_lock(LONG).await;
    assert_eq!(bench.extend(&lease).await, LOST);
    bench.lock_is(Some("foreign")).await;
}

#[tokio::test(start_paused = true)]
async fn after_a_wipe_a_successor_with_a_higher_fence_keeps_the_key() {
    let bench = bench();
    let tick = bench.tick_ago(SHORT).await;
    let lease = bench.win(&claim("a", tick)).await;
    bench.wipe().await;
    let successor = bench.win(&claim_now("b", LONG)).await;
    assert_eq!(bench.extend(&lease).await, LOST);
    assert_eq!(bench.release(&lease, RunOutcome::Succeeded).await, ReleaseReply::NotHeld);
    bench.lock_is(Some(&successor.token)).await;
    // But the tick was started: that much the late release can still say.
    let taken = bench.claim(&claim("c", tick)).await;
    assert!(matches!(&taken, ClaimDecision::Taken(_)), "{taken:?}");
}

#[tokio::test(start_paused = true)]
async fn after_a_wipe_an_expired_lease_is_not_restored() {
    let bench = bench();
    let lease = bench.win(&claim_now("a", SHORT)).await;
    bench.outlive(&lease).await;
    bench.wipe().await;
    assert_eq!(bench.extend(&lease).await, LOST);
    bench.lock_is(None).await;
}

#[tokio::test(start_paused = true)]
async fn after_a_wipe_a_release_restores_the_mark() {
    let bench = bench();
    let tick = bench.tick_ago(SHORT).await;
    let lease = bench.win(&claim("a", tick)).await;
    bench.wipe().await;
    assert_eq!(bench.release(&lease, RunOutcome::Succeeded).await, ReleaseReply::Restored);
    bench.lock_is(None).await;
    let run = bench.newest_run().await;
    assert_eq!((run.tick, run.fence, run.started), (Some(tick), lease.fence, lease.since));
    // The mark is as old as the release that restored it.
    assert_eq!(bench.claim(&claim("b", tick)).await, started("a", run.ended, true));
}

/// The mark of its transaction is gone, or was never there: nothing shows that the work is committed.
#[tokio::test(start_paused = true)]
async fn after_a_wipe_a_run_that_called_finish_is_not_recorded_as_succeeded() {
    let bench = bench();
    let lease = bench.win(&claim("a", bench.tick_ago(SHORT).await)).await;
    bench.wipe().await;
    let end = Ending { finish_called: true, ..ending(RunOutcome::Succeeded) };
    assert_eq!(bench.release_with(&lease, &end).await, ReleaseReply::Restored);
    assert_eq!(bench.newest_run().await.outcome, RunOutcome::Failed);
}

#[tokio::test(start_paused = true)]
async fn foreign_lock_ends_the_lease_and_is_never_changed() {
    let bench = bench();
    let lease = bench.win(&claim_now("a", LONG)).await;
    bench.foreign_lock(LONG).await;
    assert_eq!(bench.extend(&lease).await, LOST);
    assert_eq!(bench.release(&lease, RunOutcome::LeaseLost).await, ReleaseReply::Released);
    bench.lock_is(Some("foreign")).await;
}

#[tokio::test(start_paused = true)]
async fn fences_grow_across_a_wipe() {
    let bench = bench();
    let tick = bench.tick_ago(Duration::from_secs(2)).await;
    let before = bench.win(&claim_with("a", LONG, ask(tick))).await;
    bench.wipe().await;
    let after = bench.win(&claim("b", tick)).await;
    assert!(after.fence > before.fence, "{after:?} after {before:?}");
}

#[tokio::test(start_paused = true)]
async fn restored_tick_gets_as_many_attempts_as_when_it_was_first_started() {
    let bench = bench();
    let tick = bench.tick_ago(Duration::from_secs(2)).await;
    let first = bench.win(&claim_with("a", SHORT, takeovers(tick, 1))).await;
    bench.outlive(&first).await;
    // A server that would allow more takes it over.
    let second = bench.win(&claim_with("b", SHORT, takeovers(tick, 9))).await;
    assert_eq!((second.attempt, second.takeovers), (2, 1));
    bench.wipe().await;
    let ExtendReply::Restored(until) = bench.extend(&second).await else { panic!("it should be restored") };
    assert_eq!(bench.look().await.state.started.expect("it is restored").takeovers, 1);
    bench.outlive(&Lease { until, ..second }).await;
    let third = bench.claim(&claim_with("c", SHORT, takeovers(tick, 9))).await;
    assert!(matches!(&third, ClaimDecision::Taken(_)), "{third:?}");
}

#[tokio::test(start_paused = true)]
async fn claim_that_is_repeated_learns_the_tick_s_number_of_attempts_again() {
    let bench = bench();
    let tick = bench.tick_ago(Duration::from_secs(2)).await;
    let first = bench.win(&claim_with("a", SHORT, takeovers(tick, 1))).await;
    bench.outlive(&first).await;
    let second = claim_with("b", LONG, takeovers(tick, 9));
    assert_eq!(bench.win(&second).await.takeovers, 1);
    assert_eq!(bench.win(&second).await.takeovers, 1, "and so does the one whose answer was lost");
}

#[tokio::test(start_paused = true)]
async fn restored_tick_that_another_attempt_has_finished_stays_finished() {
    let bench = bench();
    let tick = bench.tick_ago(Duration::from_secs(2)).await;
    let first = bench.win(&claim_with("a", SHORT, takeovers(tick, 2))).await;
    let before = bench.look().await;
    bench.outlive(&first).await;
    let second = bench.win(&claim_with("b", LONG, takeovers(tick, 2))).await;
    // A failover to a replica that has not seen the takeover, and the first run ends after all.
    bench.wipe().await;
    let change = Change {
        state: Some(before.state.clone()),
        fence: FenceChange::AtLeast(before.fence),
        ..Change::default()
    };
    let swap = Swap { expected: None, expected_lock: None, nonce: 1, change };
    assert!(matches!(bench.store.swap(&bench.key, &swap).await, Ok(SwapReply::Swapped(_))));
    assert_eq!(bench.release(&first, RunOutcome::Succeeded).await, ReleaseReply::Released);

    assert!(matches!(bench.extend(&second).await, ExtendReply::Restored(_)));
    let started = bench.look().await.state.started.expect("it is restored");
    assert_eq!((started.attempt, started.finished, started.takeovers), (2, true, 2));
}

fn takeovers(tick: Timestamp, takeovers: u32) -> TickClaim {
    TickClaim { takeovers, ..ask(tick) }
}
