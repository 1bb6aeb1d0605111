//! Many servers at the same instant: between the look and the swap of one, others come first.

use std::sync::Arc;

use crate::history::RunOutcome;
use crate::store::decide::tests::bench;
use crate::store::{Claim, ClaimDecision, ClaimPurpose, Lease, ReleaseReply, TickClaim};
use crate::testing::store::Client;
use crate::testing::store::bench::{
    Bench, LONG, MOMENT, SHORT, ask, claim, claim_now, claim_what, claim_with,
};
use crate::testing::{Hook, HookFuture, Intercept, Request};

const SERVERS: usize = 8;
const ROUNDS: u32 = 10;

/// Sends all claims before the first is answered, and returns the one lease that was won.
async fn race(bench: &Bench, claims: Vec<Claim>) -> Lease {
    let mut racing = tokio::task::JoinSet::new();
    for claim in claims {
        let bench = bench.clone();
        racing.spawn(async move { bench.claim(&claim).await });
    }
    let mut leases = Vec::new();
    for reply in racing.join_all().await {
        if let ClaimDecision::Won(won) = reply {
            leases.push(won.lease);
        }
    }
    assert_eq!(leases.len(), 1, "one of {SERVERS} servers should have won: {leases:?}");
    leases.remove(0)
}

/// A key of a store that lets other tasks run before every request.
fn contended() -> Bench {
    let mut bench = bench();
    bench.client = Client::of(Arc::new(Intercept::new(bench.store.clone(), Yield)));
    bench
}

struct Yield;

impl Hook for Yield {
    fn before<'a>(&'a self, _request: Request<'a>) -> HookFuture<'a> {
        Box::pin(async {
            tokio::task::yield_now().await;
            Ok(())
        })
    }
}

fn servers() -> impl Iterator<Item = String> {
    (0..SERVERS).map(|number| format!("server-{number}"))
}

#[tokio::test(start_paused = true)]
async fn one_of_many_concurrent_claims_of_a_tick_wins() {
    let bench = contended();
    let first = bench.tick_ago(SHORT).await;
    for round in 0..ROUNDS {
        let tick = first + round * MOMENT;
        let lease = race(&bench, servers().map(|server| claim(&server, tick)).collect()).await;
        assert_eq!(bench.release(&lease, RunOutcome::Succeeded).await, ReleaseReply::Released);
    }
}

#[tokio::test(start_paused = true)]
async fn one_of_many_concurrent_manual_claims_wins() {
    let bench = contended();
    for _ in 0..ROUNDS {
        let lease = race(&bench, servers().map(|server| claim_now(&server, LONG)).collect()).await;
        assert_eq!(bench.release(&lease, RunOutcome::Succeeded).await, ReleaseReply::Released);
    }
}

#[tokio::test(start_paused = true)]
async fn one_of_many_concurrent_takeovers_wins() {
    let bench = contended();
    let ask = TickClaim { takeovers: ROUNDS, ..ask(bench.tick_ago(SHORT).await) };
    for attempt in 1..=ROUNDS {
        let claims = servers().map(|server| claim_with(&server, LONG, ask.clone())).collect();
        let lease = race(&bench, claims).await;
        assert_eq!(lease.attempt, attempt);
        assert_eq!(bench.release(&lease, RunOutcome::LeaseLost).await, ReleaseReply::Released);
    }
}

#[tokio::test(start_paused = true)]
async fn as_many_concurrent_claims_win_as_there_are_slots() {
    let bench = contended();
    let mut asked = tokio::task::JoinSet::new();
    for server in 0..12 {
        let bench = bench.clone();
        let claim = claim_what(&format!("s{server}"), LONG, ClaimPurpose::Slot(5));
        asked.spawn(async move { bench.claim(&claim).await });
    }
    let replies = asked.join_all().await;
    let won = replies.iter().filter(|reply| matches!(reply, ClaimDecision::Won(_))).count();
    assert_eq!(won, 5, "{replies:?}");
}
