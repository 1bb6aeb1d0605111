//! Whoever may take a tick over is told of it, and when to ask for it.

use std::time::Duration;

use crate::store::{Claim, ClaimReply, Lease, ReleaseReply, RunOutcome, Taken, TickClaim, Unfinished};
use crate::{Overlap, Timestamp};

use super::super::Subject;
use super::super::bench::{Bench, LONG, MOMENT, SHORT, ask, claim, claim_now, claim_with, holder};

/// A claim by a server that would take an unfinished tick over once.
fn retrying(server: &str, tick: Timestamp) -> Claim {
    claim_with(server, LONG, TickClaim { takeovers: 1, overlap: Overlap::Queue, ..ask(tick) })
}

fn free(tick: Timestamp) -> Unfinished {
    Unfinished { tick, remaining: Some(Duration::ZERO) }
}

/// A tick whose run was cut short, and an older one.
async fn cut_short(bench: &Bench) -> (Timestamp, Timestamp) {
    let tick = bench.tick_ago(SHORT).await;
    let lease = bench.win(&retrying("a", tick)).await;
    assert_eq!(bench.release(&lease, RunOutcome::Cancelled).await, ReleaseReply::Released);
    (tick, tick.minus(MOMENT))
}

pub(super) async fn a_loser_is_told_of_the_unfinished_tick_and_how_long_its_key_is_held(subject: &Subject) {
    let bench = Bench::of(subject);
    let tick = bench.tick_ago(SHORT).await;
    let won = bench.answer(&retrying("a", tick)).await;
    let ClaimReply::Won(lease) = won.reply.decision else { panic!("the claim should have won: {won:?}") };
    assert_eq!(won.reply.unfinished, None, "a winner waits for nobody");

    let (same, later) = (retrying("b", tick), retrying("b", tick.plus(MOMENT)));
    for loser in [same, later] {
        let answer = bench.answer(&loser).await;
        let remaining = Some(lease.until.since(answer.at));
        assert_eq!(answer.reply.unfinished, Some(Unfinished { tick, remaining }));
    }
    let early = retrying("b", bench.now().await.plus(LONG));
    assert_eq!(bench.verdict(&early).await.unfinished, None);
}

pub(super) async fn an_unfinished_tick_that_is_free_is_told_with_no_time_remaining(subject: &Subject) {
    let bench = Bench::of(subject);
    let (tick, older) = cut_short(&bench).await;
    let verdict = bench.verdict(&retrying("b", older)).await;
    assert_eq!((verdict.decision, verdict.unfinished), (ClaimReply::Superseded(tick), Some(free(tick))));
    assert_eq!(bench.win(&retrying("b", tick)).await.attempt, 2);
}

/// However late, and by a server that has just started: the tick was started in time, by one that knew it.
pub(super) async fn a_new_server_takes_over_what_it_did_not_see_coming(subject: &Subject) {
    let bench = Bench::of(subject);
    let (tick, _) = cut_short(&bench).await;
    let new = TickClaim { known_for: Duration::ZERO, grace: Duration::ZERO, takeovers: 1, ..ask(tick) };
    assert_eq!(bench.win(&claim_with("new", LONG, new)).await.attempt, 2);
}

pub(super) async fn a_takeover_does_not_lower_the_mark(subject: &Subject) {
    let bench = Bench::of(subject);
    let (tick, later) = (bench.tick_ago(SHORT).await, bench.tick_ago(SHORT / 2).await);
    let lease = bench.win(&retrying("a", tick)).await;
    holder(bench.claim(&claim("b", later)).await); // skipped for all servers
    assert_eq!(bench.release(&lease, RunOutcome::Cancelled).await, ReleaseReply::Released);
    let taken_over = bench.win(&retrying("b", tick)).await;
    assert_eq!(taken_over.attempt, 2);
    bench.release(&taken_over, RunOutcome::Succeeded).await;
    let skipped = bench.claim(&claim("c", later)).await;
    assert!(matches!(skipped, ClaimReply::Taken(Taken::Skipped(_))), "{skipped:?}");
    assert_eq!(bench.claim(&claim("c", tick)).await, ClaimReply::Superseded(later));
}

pub(super) async fn a_crashed_tick_is_told_with_no_time_remaining(subject: &Subject) {
    let bench = Bench::of(subject);
    let tick = bench.tick_ago(SHORT).await;
    let crashed = bench.win(&claim_with("a", SHORT, ask(tick))).await;
    bench.outlive(&crashed).await;
    let older = retrying("b", tick.minus(MOMENT));
    assert_eq!(bench.verdict(&older).await.unfinished, Some(free(tick)));
}

pub(super) async fn a_strangers_lock_without_an_expiry_leaves_the_time_open(subject: &Subject) {
    let bench = Bench::of(subject);
    let (tick, older) = cut_short(&bench).await;
    bench.stranger_locks_for_ever().await;
    let unfinished = Some(Unfinished { tick, remaining: None });
    for tick in [older, tick] {
        assert_eq!(bench.verdict(&retrying("b", tick)).await.unfinished, unfinished);
    }
}

pub(super) async fn a_finished_tick_is_not_told(subject: &Subject) {
    let bench = Bench::of(subject);
    let tick = bench.tick_ago(SHORT).await;
    bench.finish(&retrying("a", tick)).await;
    assert_eq!(bench.verdict(&retrying("b", tick)).await.unfinished, None);
    // Nor is a run by hand, which has no tick.
    bench.win(&claim_now("a", LONG)).await;
    assert_eq!(bench.verdict(&retrying("b", tick)).await.unfinished, None);
}

pub(super) async fn a_pause_puts_a_takeover_off(subject: &Subject) {
    let bench = Bench::of(subject);
    let (tick, older) = cut_short(&bench).await;
    bench.pause(true).await;
    for tick_asked in [older, tick] {
        let verdict = bench.verdict(&retrying("b", tick_asked)).await;
        assert!(!matches!(verdict.decision, ClaimReply::Won(_)), "{verdict:?}");
        assert_eq!(verdict.unfinished, Some(Unfinished { tick, remaining: None }));
    }
    bench.pause(false).await;
    assert_eq!(bench.verdict(&retrying("b", older)).await.unfinished, Some(free(tick)));
    bench.win(&retrying("b", tick)).await;
}

pub(super) async fn a_tick_is_told_only_to_whom_may_take_it_over(subject: &Subject) {
    let bench = Bench::of(subject);
    let (tick, older) = cut_short(&bench).await;
    assert_eq!(bench.verdict(&claim("b", older)).await.unfinished, None, "no takeovers are allowed");
    let second = bench.win(&retrying("b", tick)).await;
    bench.release(&second, RunOutcome::LeaseLost).await;
    assert_eq!(bench.verdict(&retrying("c", older)).await.unfinished, None, "one takeover was allowed");
    let more = TickClaim { takeovers: 2, ..ask(older) };
    assert_eq!(bench.verdict(&claim_with("c", LONG, more)).await.unfinished, Some(free(tick)));
}

pub(super) async fn who_lost_its_lease_is_told_of_its_own_tick(subject: &Subject) {
    let bench = Bench::of(subject);
    let tick = bench.tick_ago(SHORT).await;
    let claim = claim_with("a", LONG, TickClaim { takeovers: 1, ..ask(tick) });
    let mut lease = bench.win(&claim).await;
    assert_eq!(bench.verdict(&claim).await.unfinished, None, "it holds the key still");
    bench.shorten(&mut lease).await;
    bench.outlive(&lease).await;
    let verdict = bench.verdict(&claim).await;
    assert_eq!((verdict.decision, verdict.unfinished), (ClaimReply::Lost, Some(free(tick))));
}

pub(super) async fn an_unfinished_tick_from_the_future_is_not_told(subject: &Subject) {
    let bench = Bench::of(subject);
    let lease = bench.win(&claim_now("a", LONG)).await;
    let ahead = bench.now().await.plus(LONG);
    bench.wipe().await;
    let from_then = Lease { tick: Some(ahead), ..lease };
    assert_eq!(bench.release(&from_then, RunOutcome::Cancelled).await, ReleaseReply::Restored);
    let verdict = bench.verdict(&retrying("b", bench.tick_ago(SHORT).await)).await;
    assert_eq!((verdict.decision, verdict.unfinished), (ClaimReply::Ahead(ahead), None));
}

pub(super) async fn claims_by_hand_are_told_of_no_tick(subject: &Subject) {
    let bench = Bench::of(subject);
    bench.win(&retrying("a", bench.tick_ago(SHORT).await)).await;
    let verdict = bench.verdict(&claim_now("b", LONG)).await;
    assert_eq!((verdict.unfinished, verdict.other_schedule), (None, None));
    holder(verdict.decision);
}
