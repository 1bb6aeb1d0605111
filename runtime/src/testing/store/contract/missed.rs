//! `missed = "run_once"`: a tick that nobody could start in time is made up for, once.

use std::time::Duration;

use crate::store::{Claim, ClaimReply, Lease, RunOutcome, Skip, Taken, TickClaim};
use crate::{Missed, Overlap, Timestamp};

use super::super::Subject;
use super::super::bench::{Bench, DAY, LONG, ask, claim, claim_now, claim_with, holder, lease, started};

/// A server that has just started asks for a tick that is beyond its grace.
fn made_up(server: &str, tick: Timestamp) -> Claim {
    claim_with(server, LONG, TickClaim { known_for: Duration::ZERO, ..beyond_its_grace(tick) })
}

fn beyond_its_grace(tick: Timestamp) -> TickClaim {
    TickClaim { missed: Missed::RunOnce, grace: Duration::ZERO, ..ask(tick) }
}

fn is_late(reply: &ClaimReply) {
    assert!(matches!(reply, ClaimReply::Late(_)), "the tick should be late: {reply:?}");
}

fn is_skipped(reply: &ClaimReply, reason: Skip) {
    let skipped = matches!(reply, ClaimReply::Taken(Taken::Skipped(skip)) if skip.reason == reason);
    assert!(skipped, "the tick should be skipped as {reason:?}: {reply:?}");
}

pub(super) async fn a_missed_tick_is_run_beyond_its_grace_and_once(subject: &Subject) {
    let bench = Bench::of(subject);
    bench.register().await;
    let tick = bench.tick_now().await;
    let run = bench.finish(&made_up("a", tick)).await;
    assert_eq!((run.tick, run.attempt), (Some(tick), 1));
    assert_eq!(bench.claim(&made_up("b", tick)).await, started("a", run.since, true));
}

pub(super) async fn without_run_once_a_tick_beyond_its_grace_is_late(subject: &Subject) {
    let bench = Bench::of(subject);
    bench.register().await;
    let tick = bench.tick_now().await;
    let skips = TickClaim { missed: Missed::Skip, ..beyond_its_grace(tick) };
    is_late(&bench.claim(&claim_with("a", LONG, skips)).await);
}

pub(super) async fn nothing_was_missed_before_the_job_was_registered(subject: &Subject) {
    let bench = Bench::of(subject);
    let tick = bench.tick_now().await;
    bench.register().await;
    is_late(&bench.claim(&claim_with("a", LONG, beyond_its_grace(tick))).await);
}

/// The store cannot tell any more that the tick was run.
pub(super) async fn after_a_wipe_nothing_was_missed(subject: &Subject) {
    let bench = Bench::of(subject);
    bench.register().await;
    let tick = bench.tick_now().await;
    bench.finish(&claim("a", tick)).await;
    bench.wipe().await;
    for _ in 0..2 {
        is_late(&bench.claim(&claim_with("b", LONG, beyond_its_grace(tick))).await);
    }
}

/// What was run before the job's holder healed the store cannot be told from what was missed.
pub(super) async fn a_lease_that_heals_the_store_does_not_register_the_job(subject: &Subject) {
    let bench = Bench::of(subject);
    bench.register().await;
    let (by_hand, tick) = (bench.win(&claim_now("a", LONG)).await, bench.tick_now().await);
    bench.wipe().await;
    bench.extend(&by_hand).await;
    bench.release(&by_hand, RunOutcome::Succeeded).await;
    assert_eq!(bench.history().await.registered, None);
    is_late(&bench.claim(&claim_with("b", LONG, beyond_its_grace(tick))).await);
}

pub(super) async fn a_tick_that_was_skipped_was_not_missed(subject: &Subject) {
    let bench = Bench::of(subject);
    bench.register().await;
    let holding = bench.win(&claim_now("a", LONG)).await;
    let held = bench.tick_now().await;
    holder(bench.claim(&claim("b", held)).await);
    bench.release(&holding, RunOutcome::Succeeded).await;
    is_skipped(&bench.claim(&made_up("c", held)).await, Skip::Held);

    let paused = bench.tick_now().await;
    bench.pause(true).await;
    assert_eq!(bench.claim(&claim("b", paused)).await, ClaimReply::Paused);
    bench.pause(false).await;
    is_skipped(&bench.claim(&made_up("c", paused)).await, Skip::Paused);
}

pub(super) async fn what_fell_into_a_pause_was_not_missed(subject: &Subject) {
    let bench = Bench::of(subject);
    bench.register().await;
    bench.pause(true).await;
    let tick = bench.tick_now().await;
    bench.pause(false).await;
    is_late(&bench.claim(&claim_with("a", LONG, beyond_its_grace(tick))).await);
    let tick = bench.tick_now().await;
    bench.win(&made_up("a", tick)).await;
}

pub(super) async fn resuming_a_job_that_is_not_paused_forgets_nothing_that_was_missed(subject: &Subject) {
    let bench = Bench::of(subject);
    bench.register().await;
    let tick = bench.tick_now().await;
    bench.pause(false).await;
    bench.win(&made_up("a", tick)).await;
}

pub(super) async fn pausing_again_forgets_nothing_that_was_missed(subject: &Subject) {
    let bench = Bench::of(subject);
    let at = bench.register().await;
    for _ in 0..2 {
        bench.pause(true).await;
        assert_eq!(bench.history().await.registered.expect("a registration").at, at);
    }
}

pub(super) async fn a_missed_tick_is_not_skipped_while_the_key_is_held(subject: &Subject) {
    let bench = Bench::of(subject);
    bench.register().await;
    let holding = bench.win(&claim_now("a", LONG)).await;
    let waiting = made_up("b", bench.tick_now().await);
    holder(bench.claim(&waiting).await);
    assert_eq!(bench.history().await.skips, []);
    bench.release(&holding, RunOutcome::Succeeded).await;
    bench.win(&waiting).await;
}

pub(super) async fn a_winner_is_told_after_which_tick_nothing_was_decided(subject: &Subject) {
    let bench = Bench::of(subject);
    let known = bench.register().await;
    let first = bench.tick_now().await;
    let (after, holding) = win(&bench, first).await;
    assert_eq!(after, Some(known), "before the first tick the registration is all there is");

    let skipped = bench.tick_now().await;
    holder(bench.claim(&claim("b", skipped)).await);
    bench.release(&holding, RunOutcome::Cancelled).await;
    let (after, run) = win(&bench, bench.tick_now().await).await;
    assert_eq!(after, Some(skipped), "a skip is a decision");
    bench.release(&run, RunOutcome::Succeeded).await;

    bench.pause(true).await;
    bench.pause(false).await;
    let resumed = bench.history().await.registered.expect("a registration").at;
    let (after, _) = win(&bench, bench.tick_now().await).await;
    assert_eq!(after, Some(resumed), "the ticks of a pause were not missed");
}

async fn win(bench: &Bench, tick: Timestamp) -> (Option<Timestamp>, Lease) {
    let claim = claim("a", tick);
    let won = bench.won(&claim).await;
    (won.missed_after, lease(&claim, won))
}

pub(super) async fn takeovers_replays_and_runs_by_hand_are_told_of_no_missed_ticks(subject: &Subject) {
    let bench = Bench::of(subject);
    bench.register().await;
    let tick = bench.tick_now().await;
    let first = claim("a", tick);
    let cut_short = bench.win(&first).await;
    assert_eq!(bench.won(&first).await.missed_after, None);
    bench.release(&cut_short, RunOutcome::Cancelled).await;
    let takeover = claim_with("b", LONG, TickClaim { takeovers: 1, grace: DAY, ..ask(tick) });
    let won = bench.won(&takeover).await;
    assert_eq!((won.attempt, won.missed_after), (2, None));
    bench.release(&lease(&takeover, won), RunOutcome::Succeeded).await;
    assert_eq!(bench.won(&claim_now("c", LONG)).await.missed_after, None);
}

pub(super) async fn a_missed_tick_that_queues_starts_when_the_last_run_ends(subject: &Subject) {
    let bench = Bench::of(subject);
    bench.register().await;
    let holding = bench.win(&claim_now("a", LONG)).await;
    let tick = bench.tick_now().await;
    let queued = TickClaim { overlap: Overlap::Queue, ..beyond_its_grace(tick) };
    let queued = claim_with("b", LONG, queued);
    holder(bench.claim(&queued).await);
    bench.release(&holding, RunOutcome::Succeeded).await;
    bench.win(&queued).await;
}
