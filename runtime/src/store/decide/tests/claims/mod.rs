//! The replies to a claim, in every detail.

use std::time::Duration;

use crate::fleet::Holder;
use crate::history::RunOutcome;
use crate::store::{ClaimDecision, Lease, ReleaseReply, TickClaim};

use super::bench;
use crate::testing::store::bench::{
    Bench, LONG, MOMENT, SHORT, ask, claim, claim_now, claim_with, holder, started,
};

pub(crate) mod marks;
pub(crate) mod missed;
pub(crate) mod races;
pub(crate) mod registration;
pub(crate) mod takeovers;

#[tokio::test(start_paused = true)]
async fn early_claim_returns_how_long_to_wait() {
    let bench = bench();
    let tick = bench.now().await + Duration::from_secs(10);
    let claim = claim("a", tick);
    let answer = bench.answer(&claim).await;
    assert_eq!(answer.reply.decision, ClaimDecision::Early(tick.since(answer.at)));
}

#[tokio::test(start_paused = true)]
async fn delayed_tick_is_early_until_its_delay_is_over() {
    let bench = bench();
    let tick = bench.now().await;
    let delayed = |delay| claim_with("a", LONG, TickClaim { delay, ..ask(tick) });
    let early = bench.answer(&delayed(LONG)).await;
    assert_eq!(early.reply.decision, ClaimDecision::Early((tick + LONG).since(early.at)));
    tokio::time::sleep(SHORT + MOMENT).await;
    bench.win(&delayed(SHORT)).await;
}

#[tokio::test(start_paused = true)]
async fn late_claim_returns_how_late_it_is() {
    let bench = bench();
    let tick = bench.tick_ago(Duration::from_secs(60)).await;
    let late = claim("a", tick);
    let answer = bench.answer(&late).await;
    assert_eq!(answer.reply.decision, ClaimDecision::Late(answer.at.since(tick)));
    // Lateness is each server's own affair: a longer grace can still start the tick.
    let patient = TickClaim { grace: Duration::from_secs(120), ..ask(tick) };
    bench.win(&claim_with("b", LONG, patient)).await;
}

#[tokio::test(start_paused = true)]
async fn taken_tick_names_its_winner() {
    let bench = bench();
    let tick = bench.tick_ago(SHORT).await;
    let lease = bench.win(&claim("a", tick)).await;
    assert_eq!(bench.claim(&claim("b", tick)).await, started("a", lease.since, false));
    bench.release(&lease, RunOutcome::Failed).await;
    assert_eq!(bench.claim(&claim("b", tick)).await, started("a", lease.since, true));
}

#[tokio::test(start_paused = true)]
async fn older_tick_is_superseded() {
    let bench = bench();
    let newer = bench.tick_ago(SHORT).await;
    bench.finish(&claim("a", newer)).await;
    let older = newer - Duration::from_secs(1);
    assert_eq!(bench.claim(&claim("b", older)).await, ClaimDecision::Superseded(newer));
}

#[tokio::test(start_paused = true)]
async fn mark_in_the_future_answers_ahead() {
    let bench = bench();
    let ahead = mark_ahead(&bench, Duration::from_secs(3_600)).await;
    let due = claim("b", bench.tick_ago(SHORT).await);
    assert_eq!(bench.claim(&due).await, ClaimDecision::Ahead(ahead));
}

/// Leaves a mark from a time when the store's clock was ahead.
pub(super) async fn mark_ahead(bench: &Bench, by: Duration) -> crate::Timestamp {
    let lease = bench.win(&claim_now("a", LONG)).await;
    let ahead = bench.now().await + by;
    bench.wipe().await;
    let from_then = Lease { tick: Some(ahead), ..lease };
    assert_eq!(bench.release(&from_then, RunOutcome::Succeeded).await, ReleaseReply::Restored);
    ahead
}

#[tokio::test(start_paused = true)]
async fn held_key_names_its_holder_and_the_remaining_time() {
    let bench = bench();
    let lease = bench.win(&claim_now("a", LONG)).await;
    let second = claim("b", bench.tick_ago(SHORT).await);
    let answer = bench.answer(&second).await;
    let expected = Holder {
        server: Some("a".to_owned()),
        since: Some(lease.since),
        remaining: Some(lease.until.since(answer.at)),
    };
    assert_eq!(answer.reply.decision, ClaimDecision::Held(expected));
}

#[tokio::test(start_paused = true)]
async fn foreign_lock_has_an_unknown_holder() {
    let bench = bench();
    bench.foreign_lock(LONG).await;
    let Holder { server, since, remaining } = holder(bench.claim(&claim_now("a", LONG)).await);
    assert_eq!((server, since), (None, None));
    let remaining = remaining.expect("the lock expires");
    assert!(remaining > Duration::ZERO && remaining <= LONG, "{remaining:?}");
    bench.foreign_lock(SHORT).await;
    tokio::time::sleep(SHORT + MOMENT).await;
    bench.win(&claim_now("a", LONG)).await;
}

#[tokio::test(start_paused = true)]
async fn foreign_lock_without_an_expiry_has_no_remaining_time() {
    let bench = bench();
    bench.foreign_lock_without_expiry().await;
    assert_eq!(holder(bench.claim(&claim_now("a", LONG)).await).remaining, None);
}

#[tokio::test(start_paused = true)]
async fn paused_job_answers_paused() {
    let bench = bench();
    bench.pause(true).await;
    let tick = bench.tick_ago(SHORT).await;
    assert!(matches!(bench.claim(&claim("a", tick)).await, ClaimDecision::Paused(_)));
    bench.pause(false).await;
    bench.win(&claim("a", tick + Duration::from_millis(1))).await;
}

#[tokio::test(start_paused = true)]
async fn paused_job_can_be_run_manually() {
    let bench = bench();
    bench.pause(true).await;
    bench.win(&claim_now("a", LONG)).await;
}

#[tokio::test(start_paused = true)]
async fn manual_run_consumes_no_tick() {
    let bench = bench();
    let tick = bench.tick_ago(SHORT).await;
    let by_hand = bench.finish(&claim_now("a", LONG)).await;
    assert_eq!((by_hand.tick, by_hand.attempt), (None, 1));
    bench.win(&claim("b", tick)).await;
}

#[tokio::test(start_paused = true)]
async fn manual_run_is_refused_while_the_key_is_held() {
    let bench = bench();
    let tick = bench.tick_ago(SHORT).await;
    let lease = bench.win(&claim("a", tick)).await;
    let held = holder(bench.claim(&claim_now("b", LONG)).await);
    assert_eq!((held.server.as_deref(), held.since), (Some("a"), Some(lease.since)));
    assert_eq!(bench.history().await.skips, []);
}
