//! What a claim is told, with every detail.

use std::time::Duration;

use crate::store::{ClaimReply, Holder, Lease, ReleaseReply, RunOutcome, TickClaim};

use super::super::Subject;
use super::super::bench::{Bench, LONG, MOMENT, SHORT, ask, claim, claim_now, claim_with, holder, started};

pub(super) async fn an_early_claim_is_told_how_long_to_wait(subject: &Subject) {
    let bench = Bench::of(subject);
    let tick = bench.now().await.plus(Duration::from_secs(10));
    let claim = claim("a", tick);
    let answer = bench.answer(&claim).await;
    assert_eq!(answer.reply.decision, ClaimReply::Early(tick.since(answer.at)));
}

pub(super) async fn a_delayed_tick_is_early_until_its_delay_is_over(subject: &Subject) {
    let bench = Bench::of(subject);
    let tick = bench.now().await;
    let delayed = |delay| claim_with("a", LONG, TickClaim { delay, ..ask(tick) });
    let early = bench.answer(&delayed(LONG)).await;
    assert_eq!(early.reply.decision, ClaimReply::Early(tick.plus(LONG).since(early.at)));
    tokio::time::sleep(SHORT + MOMENT).await;
    bench.win(&delayed(SHORT)).await;
}

pub(super) async fn a_late_claim_is_told_how_late_it_is(subject: &Subject) {
    let bench = Bench::of(subject);
    let tick = bench.tick_ago(Duration::from_secs(60)).await;
    let late = claim("a", tick);
    let answer = bench.answer(&late).await;
    assert_eq!(answer.reply.decision, ClaimReply::Late(answer.at.since(tick)));
    // Lateness is each server's own affair: a longer grace can still start the tick.
    let patient = TickClaim { grace: Duration::from_secs(120), ..ask(tick) };
    bench.win(&claim_with("b", LONG, patient)).await;
}

pub(super) async fn a_taken_tick_names_its_winner(subject: &Subject) {
    let bench = Bench::of(subject);
    let tick = bench.tick_ago(SHORT).await;
    let lease = bench.win(&claim("a", tick)).await;
    assert_eq!(bench.claim(&claim("b", tick)).await, started("a", lease.since, false));
    bench.release(&lease, RunOutcome::Failed).await;
    assert_eq!(bench.claim(&claim("b", tick)).await, started("a", lease.since, true));
}

pub(super) async fn an_older_tick_is_superseded(subject: &Subject) {
    let bench = Bench::of(subject);
    let newer = bench.tick_ago(SHORT).await;
    bench.finish(&claim("a", newer)).await;
    let older = newer.minus(Duration::from_secs(1));
    assert_eq!(bench.claim(&claim("b", older)).await, ClaimReply::Superseded(newer));
}

pub(super) async fn a_mark_in_the_future_answers_ahead(subject: &Subject) {
    let bench = Bench::of(subject);
    let ahead = mark_ahead(&bench, Duration::from_secs(3_600)).await;
    let due = claim("b", bench.tick_ago(SHORT).await);
    assert_eq!(bench.claim(&due).await, ClaimReply::Ahead(ahead));
}

/// Leaves a mark from a time when the store's clock was ahead.
pub(super) async fn mark_ahead(bench: &Bench, by: Duration) -> crate::Timestamp {
    let lease = bench.win(&claim_now("a", LONG)).await;
    let ahead = bench.now().await.plus(by);
    bench.wipe().await;
    let from_then = Lease { tick: Some(ahead), ..lease };
    assert_eq!(bench.release(&from_then, RunOutcome::Succeeded).await, ReleaseReply::Restored);
    ahead
}

pub(super) async fn a_held_key_names_its_holder_and_the_remaining_time(subject: &Subject) {
    let bench = Bench::of(subject);
    let lease = bench.win(&claim_now("a", LONG)).await;
    let second = claim("b", bench.tick_ago(SHORT).await);
    let answer = bench.answer(&second).await;
    let expected = Holder {
        server: Some("a".to_owned()),
        since: Some(lease.since),
        remaining: Some(lease.until.since(answer.at)),
    };
    assert_eq!(answer.reply.decision, ClaimReply::Held(expected));
}

pub(super) async fn a_strangers_lock_is_held_by_nobody_known(subject: &Subject) {
    let bench = Bench::of(subject);
    bench.stranger_locks(LONG).await;
    let Holder { server, since, remaining } = holder(bench.claim(&claim_now("a", LONG)).await);
    assert_eq!((server, since), (None, None));
    let remaining = remaining.expect("the lock expires");
    assert!(remaining > Duration::ZERO && remaining <= LONG, "{remaining:?}");
    bench.stranger_locks(SHORT).await;
    tokio::time::sleep(SHORT + MOMENT).await;
    bench.win(&claim_now("a", LONG)).await;
}

pub(super) async fn a_strangers_lock_without_an_expiry_has_no_remaining_time(subject: &Subject) {
    let bench = Bench::of(subject);
    bench.stranger_locks_for_ever().await;
    assert_eq!(holder(bench.claim(&claim_now("a", LONG)).await).remaining, None);
}

pub(super) async fn a_paused_job_answers_paused(subject: &Subject) {
    let bench = Bench::of(subject);
    bench.pause(true).await;
    let tick = bench.tick_ago(SHORT).await;
    assert_eq!(bench.claim(&claim("a", tick)).await, ClaimReply::Paused);
    bench.pause(false).await;
    bench.win(&claim("a", tick.plus(Duration::from_millis(1)))).await;
}

pub(super) async fn a_paused_job_can_be_claimed_now(subject: &Subject) {
    let bench = Bench::of(subject);
    bench.pause(true).await;
    bench.win(&claim_now("a", LONG)).await;
}

pub(super) async fn now_consumes_no_tick(subject: &Subject) {
    let bench = Bench::of(subject);
    let tick = bench.tick_ago(SHORT).await;
    let by_hand = bench.finish(&claim_now("a", LONG)).await;
    assert_eq!((by_hand.tick, by_hand.attempt), (None, 1));
    bench.win(&claim("b", tick)).await;
}

pub(super) async fn now_is_refused_while_the_key_is_held(subject: &Subject) {
    let bench = Bench::of(subject);
    let tick = bench.tick_ago(SHORT).await;
    let lease = bench.win(&claim("a", tick)).await;
    let held = holder(bench.claim(&claim_now("b", LONG)).await);
    assert_eq!((held.server.as_deref(), held.since), (Some("a"), Some(lease.since)));
    assert_eq!(bench.history().await.skips, []);
}
