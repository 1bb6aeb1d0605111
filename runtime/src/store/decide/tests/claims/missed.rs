//! `missed = "run_once"` runs a missed tick once; gaps of missed ticks are reported once.

use std::time::Duration;

use crate::Timestamp;
use crate::events::Taken;
use crate::history::{RunOutcome, Skip};
use crate::schedule::{Missed, Overlap};
use crate::store::{Claim, ClaimDecision, ClaimPurpose, Gap, Lease, TickClaim};

use crate::store::decide::tests::bench;
use crate::testing::store::bench::{DAY, LONG, ask, claim, claim_now, claim_with, holder, started};

/// A server that has just started asks for a tick that is beyond its grace.
fn made_up(server: &str, tick: Timestamp) -> Claim {
    claim_with(server, LONG, TickClaim { known_for: Duration::ZERO, ..beyond_its_grace(tick) })
}

fn beyond_its_grace(tick: Timestamp) -> TickClaim {
    TickClaim { missed: Missed::RunOnce, grace: Duration::ZERO, ..ask(tick) }
}

fn is_late(reply: &ClaimDecision) {
    assert!(matches!(reply, ClaimDecision::Late(_)), "the tick should be late: {reply:?}");
}

fn is_skipped(reply: &ClaimDecision, reason: Skip) {
    let skipped = matches!(reply, ClaimDecision::Taken(Taken::Skipped(skip)) if skip.reason == reason);
    assert!(skipped, "the tick should be skipped as {reason:?}: {reply:?}");
}

#[tokio::test(start_paused = true)]
async fn missed_tick_is_run_beyond_its_grace_and_once() {
    let bench = bench();
    bench.register_as(Missed::RunOnce).await;
    let tick = bench.tick_now().await;
    let run = bench.finish(&made_up("a", tick)).await;
    assert_eq!((run.tick, run.attempt), (Some(tick), 1));
    assert_eq!(bench.claim(&made_up("b", tick)).await, started("a", run.since, true));
}

#[tokio::test(start_paused = true)]
async fn without_run_once_a_tick_beyond_its_grace_is_late() {
    let bench = bench();
    bench.register_as(Missed::RunOnce).await;
    let tick = bench.tick_now().await;
    let skips = TickClaim { missed: Missed::Skip, ..beyond_its_grace(tick) };
    is_late(&bench.claim(&claim_with("a", LONG, skips)).await);
}

#[tokio::test(start_paused = true)]
async fn nothing_was_missed_before_the_job_was_registered() {
    let bench = bench();
    let tick = bench.tick_now().await;
    bench.register_as(Missed::RunOnce).await;
    is_late(&bench.claim(&claim_with("a", LONG, beyond_its_grace(tick))).await);
}

/// The store cannot tell any more that the tick was run.
#[tokio::test(start_paused = true)]
async fn after_a_wipe_nothing_was_missed() {
    let bench = bench();
    bench.register_as(Missed::RunOnce).await;
    let tick = bench.tick_now().await;
    bench.finish(&claim("a", tick)).await;
    bench.wipe().await;
    for _ in 0..2 {
        is_late(&bench.claim(&claim_with("b", LONG, beyond_its_grace(tick))).await);
    }
}

/// What was run before the job's holder healed the store cannot be told from what was missed.
#[tokio::test(start_paused = true)]
async fn lease_that_heals_the_store_does_not_register_the_job() {
    let bench = bench();
    bench.register_as(Missed::RunOnce).await;
    let (by_hand, tick) = (bench.win(&claim_now("a", LONG)).await, bench.tick_now().await);
    bench.wipe().await;
    bench.extend(&by_hand).await;
    bench.release(&by_hand, RunOutcome::Succeeded).await;
    assert_eq!(bench.history().await.registered, None);
    is_late(&bench.claim(&claim_with("b", LONG, beyond_its_grace(tick))).await);
}

#[tokio::test(start_paused = true)]
async fn tick_that_was_skipped_was_not_missed() {
    let bench = bench();
    bench.register_as(Missed::RunOnce).await;
    let holding = bench.win(&claim_now("a", LONG)).await;
    let held = bench.tick_now().await;
    holder(bench.claim(&claim("b", held)).await);
    bench.release(&holding, RunOutcome::Succeeded).await;
    is_skipped(&bench.claim(&made_up("c", held)).await, Skip::Held);

    let paused = bench.tick_now().await;
    bench.pause(true).await;
    assert!(matches!(bench.claim(&claim("b", paused)).await, ClaimDecision::Paused(_)));
    bench.pause(false).await;
    is_skipped(&bench.claim(&made_up("c", paused)).await, Skip::Paused);
}

#[tokio::test(start_paused = true)]
async fn tick_of_a_pause_was_not_missed() {
    let bench = bench();
    bench.register_as(Missed::RunOnce).await;
    bench.pause(true).await;
    let tick = bench.tick_now().await;
    bench.pause(false).await;
    is_late(&bench.claim(&claim_with("a", LONG, beyond_its_grace(tick))).await);
    let tick = bench.tick_now().await;
    bench.win(&made_up("a", tick)).await;
}

#[tokio::test(start_paused = true)]
async fn resuming_a_job_that_is_not_paused_forgets_nothing_that_was_missed() {
    let bench = bench();
    bench.register_as(Missed::RunOnce).await;
    let tick = bench.tick_now().await;
    bench.pause(false).await;
    bench.win(&made_up("a", tick)).await;
}

#[tokio::test(start_paused = true)]
async fn pausing_again_forgets_nothing_that_was_missed() {
    let bench = bench();
    let at = bench.register_as(Missed::RunOnce).await;
    for _ in 0..2 {
        bench.pause(true).await;
        assert_eq!(bench.history().await.registered.expect("a registration").at, at);
    }
}

#[tokio::test(start_paused = true)]
async fn missed_tick_is_not_skipped_while_the_key_is_held() {
    let bench = bench();
    bench.register_as(Missed::RunOnce).await;
    let holding = bench.win(&claim_now("a", LONG)).await;
    let waiting = made_up("b", bench.tick_now().await);
    holder(bench.claim(&waiting).await);
    assert_eq!(bench.history().await.skips, []);
    bench.release(&holding, RunOutcome::Succeeded).await;
    bench.win(&waiting).await;
}

/// A claim of a tick that follows another one of the schedule.
fn following(server: &str, previous: Timestamp, tick: Timestamp) -> Claim {
    claim_with(server, LONG, TickClaim { previous: Some(previous), ..ask(tick) })
}

#[tokio::test(start_paused = true)]
async fn winner_gets_the_gap_since_the_last_decided_tick() {
    let bench = bench();
    let registered = bench.register().await;
    let [unseen, first] = [bench.tick_now().await, bench.tick_now().await];
    let claim = following("a", unseen, first);
    let won = bench.won(&claim).await;
    assert_eq!(
        won.missed,
        [Gap { after: registered, before: first, schedule: Some(ask(first).schedule) }],
        "nothing was decided before"
    );
    let lease = Lease { reported: Some(first), ..won.lease };
    bench.release(&lease, RunOutcome::Succeeded).await;

    let holding = bench.win(&claim_now("b", LONG)).await;
    let [unseen, skipped] = [bench.tick_now().await, bench.tick_now().await];
    holder(bench.claim(&following("b", unseen, skipped)).await);
    bench.release(&holding, RunOutcome::Succeeded).await;
    let next = bench.tick_now().await;
    let missed = bench.won(&following("a", skipped, next)).await.missed;
    assert_eq!(
        missed,
        [Gap { after: first, before: skipped, schedule: Some(ask(first).schedule) }],
        "a skip is a decision, and keeps the gap before it"
    );
}

#[tokio::test(start_paused = true)]
async fn tick_that_follows_the_last_decided_one_leaves_no_gap() {
    let bench = bench();
    bench.register().await;
    let [first, second] = [bench.tick_now().await, bench.tick_now().await];
    bench.finish(&claim("a", first)).await;
    assert_eq!(bench.won(&following("a", first, second)).await.missed, []);
}

#[tokio::test(start_paused = true)]
async fn resumption_keeps_what_was_missed_before_it() {
    let bench = bench();
    bench.register().await;
    let first = bench.tick_now().await;
    bench.finish(&claim("a", first)).await;
    bench.pause(true).await;
    let unseen = bench.tick_now().await;
    bench.pause(false).await;
    let next = bench.tick_now().await;
    let missed = bench.won(&following("a", unseen, next)).await.missed;
    let [Gap { after, before, schedule: Some(_) }] = &missed[..] else { panic!("{missed:?}") };
    assert!(*after == first && unseen < *before && *before < next, "{missed:?}");
}

#[tokio::test(start_paused = true)]
async fn gap_is_returned_until_a_lease_has_reported_it() {
    let bench = bench();
    let after = bench.register().await;
    let [unseen, tick] = [bench.tick_now().await, bench.tick_now().await];
    let gap = [Gap { after, before: tick, schedule: Some(ask(tick).schedule) }];
    let claim = following("a", unseen, tick);
    let silent = bench.win(&claim).await;
    assert_eq!(bench.won(&claim).await.missed, gap, "a repeated claim gets it again");
    bench.release(&silent, RunOutcome::Succeeded).await;

    let next = following("b", tick, bench.tick_now().await);
    let won = bench.won(&next).await;
    assert_eq!(won.missed, gap, "the lease before did not report it");
    let mut reporting = Lease { reported: next_tick(&next), ..won.lease };
    bench.keep(&mut reporting).await;
    assert_eq!(bench.look().await.state.missed, []);
    bench.release(&reporting, RunOutcome::Succeeded).await;
    let last = following("a", tick, bench.tick_now().await);
    assert_eq!(bench.won(&last).await.missed, [], "an extension has reported it");
}

fn next_tick(claim: &Claim) -> Option<Timestamp> {
    match &claim.what {
        ClaimPurpose::Tick(ask) => Some(ask.tick),
        _ => None,
    }
}

#[tokio::test(start_paused = true)]
async fn gap_that_was_reported_by_a_release_is_dropped() {
    let bench = bench();
    bench.register().await;
    let [unseen, tick] = [bench.tick_now().await, bench.tick_now().await];
    let lease = bench.win(&following("a", unseen, tick)).await;
    bench.release(&Lease { reported: Some(tick), ..lease }, RunOutcome::Succeeded).await;
    assert_eq!(bench.look().await.state.missed, []);
}

#[tokio::test(start_paused = true)]
async fn oldest_of_more_than_sixteen_gaps_are_merged() {
    let bench = bench();
    let registered = bench.register().await;
    let mut ticks = Vec::new();
    for _ in 0..20 {
        let [unseen, tick] = [bench.tick_now().await, bench.tick_now().await];
        bench.finish(&following("a", unseen, tick)).await;
        ticks.push(tick);
    }
    let missed = bench.look().await.state.missed.clone();
    let ends: Vec<_> = missed.iter().map(|gap| gap.before).collect();
    assert_eq!((missed[0].after, ends), (registered, ticks[4..].to_vec()));
}

#[tokio::test(start_paused = true)]
async fn takeovers_and_manual_runs_add_no_gap() {
    let bench = bench();
    bench.register().await;
    let tick = bench.tick_now().await;
    let retried = TickClaim { takeovers: 1, grace: DAY, ..ask(tick) };
    let cut_short = bench.win(&claim_with("a", LONG, retried.clone())).await;
    bench.release(&cut_short, RunOutcome::Cancelled).await;
    let takeover = claim_with("b", LONG, retried);
    let won = bench.won(&takeover).await;
    assert_eq!((won.lease.attempt, won.missed.len()), (2, 0));
    bench.release(&won.lease, RunOutcome::Succeeded).await;
    assert_eq!(bench.won(&claim_now("c", LONG)).await.missed, []);
    assert_eq!(bench.look().await.state.missed, []);
}

#[tokio::test(start_paused = true)]
async fn tick_that_was_missed_before_run_once_applied_stays_missed() {
    let bench = bench();
    bench.register().await;
    let before = bench.tick_now().await;
    // A newer server of the same schedule, with another policy.
    is_late(&bench.claim(&made_up("new", before)).await);
    let since = bench.history().await.registered.expect("a registration").runs_missed_since;
    assert_eq!(since, Some(bench.now().await));
    let after = bench.tick_now().await;
    bench.win(&made_up("new", after)).await;
}

#[tokio::test(start_paused = true)]
async fn older_server_does_not_change_the_policy_for_missed_ticks() {
    let bench = bench();
    bench.register_as(Missed::RunOnce).await;
    let tick = bench.tick_now().await;
    let older = TickClaim { known_for: 2 * DAY, missed: Missed::Skip, grace: Duration::ZERO, ..ask(tick) };
    is_late(&bench.claim(&claim_with("older", LONG, older)).await);
    bench.win(&made_up("new", tick)).await;
}

#[tokio::test(start_paused = true)]
async fn missed_tick_that_queues_starts_when_the_last_run_ends() {
    let bench = bench();
    bench.register_as(Missed::RunOnce).await;
    let holding = bench.win(&claim_now("a", LONG)).await;
    let tick = bench.tick_now().await;
    let queued = TickClaim { overlap: Overlap::Queue, ..beyond_its_grace(tick) };
    let queued = claim_with("b", LONG, queued);
    holder(bench.claim(&queued).await);
    bench.release(&holding, RunOutcome::Succeeded).await;
    bench.win(&queued).await;
}
