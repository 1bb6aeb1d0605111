//! Each tick is decided once, for all servers.

use std::time::Duration;

use crate::events::Taken;
use crate::history::{RunOutcome, Skip, SkipRecord};
use crate::schedule::Overlap;
use crate::store::{ClaimDecision, ReleaseReply, TickClaim};

use super::mark_ahead;
use crate::store::decide::tests::bench;
use crate::testing::store::bench::{
    Bench, LONG, MOMENT, SHORT, ask, claim, claim_now, claim_with, holder, started,
};

#[tokio::test(start_paused = true)]
async fn late_server_does_not_rerun_a_finished_tick() {
    let bench = bench();
    let tick = bench.tick_ago(SHORT).await;
    let lease = bench.finish(&claim("a", tick)).await;
    tokio::time::sleep(Duration::from_millis(10)).await;
    let eager = TickClaim { takeovers: 5, overlap: Overlap::Queue, ..ask(tick) };
    for late in [claim("b", tick), claim_with("c", LONG, eager)] {
        assert_eq!(bench.claim(&late).await, started("a", lease.since, true));
    }
    assert_eq!(bench.history().await.runs.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn fast_clock_neither_starts_early_nor_burns_later_ticks() {
    let bench = bench();
    let due = bench.tick_ago(SHORT).await;
    let next = bench.now().await + LONG;
    let fast = claim("fast", next);
    assert_eq!(bench.claim(&fast).await, ClaimDecision::Early(LONG));
    bench.finish(&claim("b", due)).await;
    tokio::time::sleep(LONG.saturating_sub(MOMENT)).await;
    assert_eq!(bench.claim(&fast).await, ClaimDecision::Early(MOMENT));
    tokio::time::sleep(MOMENT).await;
    assert_eq!(bench.win(&fast).await.since, next);
}

/// A server whose clock has stepped back computes older ticks than the newest decided one.
#[tokio::test(start_paused = true)]
async fn older_ticks_are_never_run_again() {
    let bench = bench();
    let newest = bench.tick_ago(SHORT).await;
    let ticks = [3, 2, 1].map(|back| newest - Duration::from_secs(back));
    for tick in ticks {
        bench.finish(&claim("a", tick)).await;
    }
    let last = bench.finish(&claim("a", newest)).await;
    for tick in ticks {
        let eager = TickClaim { takeovers: 5, ..ask(tick) };
        assert_eq!(bench.claim(&claim_with("b", LONG, eager)).await, ClaimDecision::Superseded(newest));
    }
    assert_eq!(bench.claim(&claim("b", newest)).await, started("a", last.since, true));
    assert_eq!(bench.history().await.runs.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn tick_skipped_as_held_is_skipped_for_all_servers_once() {
    let bench = bench();
    let lease = bench.win(&claim_now("a", LONG)).await;
    let tick = bench.tick_ago(SHORT).await;
    holder(bench.claim(&claim("b", tick)).await);
    bench.release(&lease, RunOutcome::Succeeded).await;
    skipped_once(&bench, tick, Skip::Held).await;
}

#[tokio::test(start_paused = true)]
async fn tick_skipped_as_paused_is_skipped_for_all_servers_once() {
    let bench = bench();
    let tick = bench.tick_ago(SHORT).await;
    bench.pause(true).await;
    assert!(matches!(bench.claim(&claim("b", tick)).await, ClaimDecision::Paused(_)));
    bench.pause(false).await;
    skipped_once(&bench, tick, Skip::Paused).await;
}

async fn skipped_once(bench: &Bench, tick: crate::Timestamp, reason: Skip) {
    let skips = bench.history().await.skips;
    let [skip] = skips.as_slice() else { panic!("one skip should be on record: {skips:?}") };
    let decided = SkipRecord::new(tick, reason, "b", skip.at);
    assert_eq!(SkipRecord { holder: None, pause: None, ..skip.clone() }, decided);
    for server in ["b", "c"] {
        let answer = bench.claim(&claim(server, tick)).await;
        assert_eq!(answer, ClaimDecision::Taken(Taken::Skipped(decided.clone())));
    }
    assert_eq!(bench.history().await.skips, skips);
}

#[tokio::test(start_paused = true)]
async fn queued_tick_starts_when_the_last_run_ends() {
    let bench = bench();
    let lease = bench.win(&claim_now("a", LONG)).await;
    let queued = TickClaim { overlap: Overlap::Queue, ..ask(bench.tick_ago(SHORT).await) };
    let waiting = claim_with("b", LONG, queued);
    holder(bench.claim(&waiting).await);
    bench.release(&lease, RunOutcome::Succeeded).await;
    bench.win(&waiting).await;
    assert_eq!(bench.history().await.skips, []);
}

#[tokio::test(start_paused = true)]
async fn unfinished_tick_is_not_taken_over_unasked() {
    let bench = bench();
    let tick = bench.tick_ago(SHORT).await;
    let lease = bench.win(&claim("a", tick)).await;
    assert_eq!(bench.release(&lease, RunOutcome::Cancelled).await, ReleaseReply::Released);
    assert_eq!(bench.claim(&claim("b", tick)).await, started("a", lease.since, false));
}

#[tokio::test(start_paused = true)]
async fn unfinished_tick_is_taken_over_with_the_next_attempt_and_a_higher_fence() {
    let bench = bench();
    let tick = bench.tick_ago(SHORT).await;
    let in_time = TickClaim { takeovers: 1, ..ask(tick) };
    let mut first = bench.win(&claim_with("a", LONG, in_time.clone())).await;
    // Whatever the grace: the tick has been started in time.
    let retry = TickClaim { grace: Duration::ZERO, ..in_time };
    assert_eq!(bench.claim(&claim_with("b", LONG, retry.clone())).await, started("a", first.since, false));
    bench.shorten(&mut first).await;
    bench.outlive(&first).await;
    let second = bench.win(&claim_with("b", LONG, retry)).await;
    assert_eq!((first.attempt, second.attempt), (1, 2));
    assert!(second.fence > first.fence, "{second:?} after {first:?}");
}

#[tokio::test(start_paused = true)]
async fn tick_is_taken_over_only_as_often_as_allowed() {
    let bench = bench();
    let tick = bench.tick_ago(SHORT).await;
    let retry = TickClaim { takeovers: 2, ..ask(tick) };
    for attempt in 1..=3 {
        let lease = bench.win(&claim_with("a", LONG, retry.clone())).await;
        assert_eq!(lease.attempt, attempt);
        bench.release(&lease, RunOutcome::LeaseLost).await;
    }
    let refused = bench.claim(&claim_with("b", LONG, retry)).await;
    assert!(matches!(refused, ClaimDecision::Taken(Taken::Started { finished: false, .. })), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn finished_tick_is_never_taken_over() {
    let bench = bench();
    let start = bench.tick_ago(Duration::from_secs(5)).await;
    let finished = [RunOutcome::Succeeded, RunOutcome::Failed, RunOutcome::TimedOut, RunOutcome::Panicked];
    for (number, outcome) in (0..).zip(finished) {
        let tick = start + Duration::from_secs(number);
        let lease = bench.win(&claim("a", tick)).await;
        bench.release(&lease, outcome).await;
        let retry = claim_with("b", LONG, TickClaim { takeovers: 5, ..ask(tick) });
        assert_eq!(bench.claim(&retry).await, started("a", lease.since, true), "{outcome:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn reset_takes_back_a_mark_ahead_of_the_clock_and_nothing_else() {
    let bench = bench();
    let ahead = mark_ahead(&bench, Duration::from_secs(3_600)).await;
    assert_eq!(bench.claim(&claim("b", bench.tick_ago(SHORT).await)).await, ClaimDecision::Ahead(ahead));
    bench.pause(true).await;
    let runs = bench.history().await;
    bench.reset().await;
    assert_eq!(bench.history().await, runs);

    // Ticks up to the reset stay decided, later ones are free, and the job is still paused.
    let past = claim("b", bench.tick_ago(Duration::from_secs(1)).await);
    let ClaimDecision::Superseded(mark) = bench.claim(&past).await else { panic!("the past is decided") };
    let next = mark + Duration::from_micros(1);
    tokio::time::sleep(MOMENT).await;
    assert!(matches!(bench.claim(&claim("b", next)).await, ClaimDecision::Paused(_)));
    bench.pause(false).await;

    bench.reset().await;
    let skipped = bench.claim(&claim("c", next)).await;
    assert!(
        matches!(skipped, ClaimDecision::Taken(Taken::Skipped(_))),
        "a mark in the past stays: {skipped:?}"
    );
}
