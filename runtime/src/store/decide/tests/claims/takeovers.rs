//! Unfinished ticks: which servers may take one over, and when.

use std::time::Duration;

use crate::Timestamp;
use crate::events::Taken;
use crate::history::RunOutcome;
use crate::schedule::Overlap;
use crate::store::{Claim, ClaimDecision, Lease, ReleaseReply, TickClaim, UnfinishedTick, WonClaim};

use crate::store::decide::tests::bench;
use crate::testing::store::bench::{Bench, LONG, MOMENT, SHORT, ask, claim, claim_now, claim_with, holder};

/// A claim by a server that would take an unfinished tick over once.
fn retrying(server: &str, tick: Timestamp) -> Claim {
    claim_with(server, LONG, TickClaim { takeovers: 1, overlap: Overlap::Queue, ..ask(tick) })
}

fn free(tick: Timestamp) -> UnfinishedTick {
    UnfinishedTick { tick, remaining: Some(Duration::ZERO) }
}

/// A tick whose run was cut short, and an older one.
async fn cut_short(bench: &Bench) -> (Timestamp, Timestamp) {
    let tick = bench.tick_ago(SHORT).await;
    let lease = bench.win(&retrying("a", tick)).await;
    assert_eq!(bench.release(&lease, RunOutcome::Cancelled).await, ReleaseReply::Released);
    (tick, tick - MOMENT)
}

#[tokio::test(start_paused = true)]
async fn loser_sees_the_unfinished_tick_and_how_long_its_key_is_held() {
    let bench = bench();
    let tick = bench.tick_ago(SHORT).await;
    let won = bench.answer(&retrying("a", tick)).await;
    let ClaimDecision::Won(WonClaim { lease, .. }) = won.reply.decision else {
        panic!("the claim should have won: {won:?}")
    };
    assert_eq!(won.reply.unfinished, None, "a winner waits for no other server");

    let (same, later) = (retrying("b", tick), retrying("b", tick + MOMENT));
    for loser in [same, later] {
        let answer = bench.answer(&loser).await;
        let remaining = Some(lease.until.since(answer.at));
        assert_eq!(answer.reply.unfinished, Some(UnfinishedTick { tick, remaining }));
    }
    let early = retrying("b", bench.now().await + LONG);
    assert_eq!(bench.verdict(&early).await.unfinished, None);
}

#[tokio::test(start_paused = true)]
async fn free_unfinished_tick_has_no_time_remaining() {
    let bench = bench();
    let (tick, older) = cut_short(&bench).await;
    let verdict = bench.verdict(&retrying("b", older)).await;
    assert_eq!((verdict.decision, verdict.unfinished), (ClaimDecision::Superseded(tick), Some(free(tick))));
    assert_eq!(bench.win(&retrying("b", tick)).await.attempt, 2);
}

/// However late, and by a server that has just started: the tick was started in time, by one that knew it.
#[tokio::test(start_paused = true)]
async fn new_server_takes_over_a_tick_that_it_did_not_expect() {
    let bench = bench();
    let (tick, _) = cut_short(&bench).await;
    let new = TickClaim { known_for: Duration::ZERO, grace: Duration::ZERO, takeovers: 1, ..ask(tick) };
    assert_eq!(bench.win(&claim_with("new", LONG, new)).await.attempt, 2);
}

#[tokio::test(start_paused = true)]
async fn takeover_does_not_lower_the_mark() {
    let bench = bench();
    let (tick, later) = (bench.tick_ago(SHORT).await, bench.tick_ago(SHORT / 2).await);
    let lease = bench.win(&retrying("a", tick)).await;
    holder(bench.claim(&claim("b", later)).await); // skipped for all servers
    assert_eq!(bench.release(&lease, RunOutcome::Cancelled).await, ReleaseReply::Released);
    let taken_over = bench.win(&retrying("b", tick)).await;
    assert_eq!(taken_over.attempt, 2);
    bench.release(&taken_over, RunOutcome::Succeeded).await;
    let skipped = bench.claim(&claim("c", later)).await;
    assert!(matches!(skipped, ClaimDecision::Taken(Taken::Skipped(_))), "{skipped:?}");
    assert_eq!(bench.claim(&claim("c", tick)).await, ClaimDecision::Superseded(later));
}

#[tokio::test(start_paused = true)]
async fn crashed_tick_has_no_time_remaining() {
    let bench = bench();
    let tick = bench.tick_ago(SHORT).await;
    let crashed = bench.win(&claim_with("a", SHORT, TickClaim { takeovers: 1, ..ask(tick) })).await;
    bench.outlive(&crashed).await;
    let older = retrying("b", tick - MOMENT);
    assert_eq!(bench.verdict(&older).await.unfinished, Some(free(tick)));
}

#[tokio::test(start_paused = true)]
async fn unfinished_tick_under_an_endless_foreign_lock_has_an_unknown_remaining_time() {
    let bench = bench();
    let (tick, older) = cut_short(&bench).await;
    bench.foreign_lock_without_expiry().await;
    let unfinished = Some(UnfinishedTick { tick, remaining: None });
    for tick in [older, tick] {
        assert_eq!(bench.verdict(&retrying("b", tick)).await.unfinished, unfinished);
    }
}

#[tokio::test(start_paused = true)]
async fn finished_tick_is_not_unfinished() {
    let bench = bench();
    let tick = bench.tick_ago(SHORT).await;
    bench.finish(&retrying("a", tick)).await;
    assert_eq!(bench.verdict(&retrying("b", tick)).await.unfinished, None);
    // Nor is a manual run, which has no tick.
    bench.win(&claim_now("a", LONG)).await;
    assert_eq!(bench.verdict(&retrying("b", tick)).await.unfinished, None);
}

#[tokio::test(start_paused = true)]
async fn pause_delays_a_takeover() {
    let bench = bench();
    let (tick, older) = cut_short(&bench).await;
    bench.pause(true).await;
    for tick_asked in [older, tick] {
        let verdict = bench.verdict(&retrying("b", tick_asked)).await;
        assert!(!matches!(verdict.decision, ClaimDecision::Won(_)), "{verdict:?}");
        assert_eq!(verdict.unfinished, Some(UnfinishedTick { tick, remaining: None }));
    }
    bench.pause(false).await;
    assert_eq!(bench.verdict(&retrying("b", older)).await.unfinished, Some(free(tick)));
    bench.win(&retrying("b", tick)).await;
}

#[tokio::test(start_paused = true)]
async fn unfinished_tick_is_shown_only_to_servers_that_may_take_it_over() {
    let bench = bench();
    let (tick, older) = cut_short(&bench).await;
    assert_eq!(bench.verdict(&claim("b", older)).await.unfinished, None, "no takeovers are allowed");
    let second = bench.win(&retrying("b", tick)).await;
    bench.release(&second, RunOutcome::LeaseLost).await;
    assert_eq!(bench.verdict(&retrying("c", older)).await.unfinished, None, "one takeover was allowed");
}

#[tokio::test(start_paused = true)]
async fn server_that_lost_its_lease_sees_its_own_tick_as_unfinished() {
    let bench = bench();
    let tick = bench.tick_ago(SHORT).await;
    let claim = claim_with("a", LONG, TickClaim { takeovers: 1, ..ask(tick) });
    let mut lease = bench.win(&claim).await;
    assert_eq!(bench.verdict(&claim).await.unfinished, None, "it holds the key still");
    bench.shorten(&mut lease).await;
    bench.outlive(&lease).await;
    let verdict = bench.verdict(&claim).await;
    assert_eq!((verdict.decision, verdict.unfinished), (ClaimDecision::Lost, Some(free(tick))));
}

#[tokio::test(start_paused = true)]
async fn unfinished_tick_from_the_future_is_not_shown() {
    let bench = bench();
    let lease = bench.win(&claim_now("a", LONG)).await;
    let ahead = bench.now().await + LONG;
    bench.wipe().await;
    let from_then = Lease { tick: Some(ahead), ..lease };
    assert_eq!(bench.release(&from_then, RunOutcome::Cancelled).await, ReleaseReply::Restored);
    let verdict = bench.verdict(&retrying("b", bench.tick_ago(SHORT).await)).await;
    assert_eq!((verdict.decision, verdict.unfinished), (ClaimDecision::Ahead(ahead), None));
}

#[tokio::test(start_paused = true)]
async fn manual_claims_see_no_unfinished_tick() {
    let bench = bench();
    bench.win(&retrying("a", bench.tick_ago(SHORT).await)).await;
    let verdict = bench.verdict(&claim_now("b", LONG)).await;
    assert_eq!((verdict.unfinished, verdict.other_schedule), (None, None));
    holder(verdict.decision);
}
