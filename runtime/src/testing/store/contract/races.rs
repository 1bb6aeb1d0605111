//! Many servers at the same instant: a step that reads, waits and writes lets two of them in.

use super::super::Subject;
use super::super::bench::{Bench, LONG, MOMENT, SHORT, ask, claim, claim_now, claim_with, lease};
use crate::store::{Claim, ClaimReply, Lease, ReleaseReply, RunOutcome, TickClaim};

const SERVERS: usize = 8;
const ROUNDS: u32 = 10;

/// Sends all claims before the first is answered, and returns the one lease that was won.
async fn race(bench: &Bench, claims: Vec<Claim>) -> Lease {
    let mut racing = tokio::task::JoinSet::new();
    for claim in claims {
        let bench = bench.clone();
        racing.spawn(async move {
            let reply = bench.claim(&claim).await;
            (claim, reply)
        });
    }
    let mut leases = Vec::new();
    for (claim, reply) in racing.join_all().await {
        if let ClaimReply::Won(won) = reply {
            leases.push(lease(&claim, won));
        }
    }
    assert_eq!(leases.len(), 1, "one of {SERVERS} servers should have won: {leases:?}");
    leases.remove(0)
}

fn servers() -> impl Iterator<Item = String> {
    (0..SERVERS).map(|number| format!("server-{number}"))
}

pub(super) async fn of_many_servers_that_claim_a_tick_at_once_one_wins(subject: &Subject) {
    let bench = Bench::of(subject);
    let first = bench.tick_ago(SHORT).await;
    for round in 0..ROUNDS {
        let tick = first.plus(round * MOMENT);
        let lease = race(&bench, servers().map(|server| claim(&server, tick)).collect()).await;
        assert_eq!(bench.release(&lease, RunOutcome::Succeeded).await, ReleaseReply::Released);
    }
}

pub(super) async fn of_many_servers_that_claim_now_at_once_one_wins(subject: &Subject) {
    let bench = Bench::of(subject);
    for _ in 0..ROUNDS {
        let lease = race(&bench, servers().map(|server| claim_now(&server, LONG)).collect()).await;
        assert_eq!(bench.release(&lease, RunOutcome::Succeeded).await, ReleaseReply::Released);
    }
}

pub(super) async fn of_many_servers_that_take_a_tick_over_at_once_one_wins(subject: &Subject) {
    let bench = Bench::of(subject);
    let ask = TickClaim { takeovers: ROUNDS, ..ask(bench.tick_ago(SHORT).await) };
    for attempt in 1..=ROUNDS {
        let claims = servers().map(|server| claim_with(&server, LONG, ask.clone())).collect();
        let lease = race(&bench, claims).await;
        assert_eq!(lease.attempt, attempt);
        assert_eq!(bench.release(&lease, RunOutcome::LeaseLost).await, ReleaseReply::Released);
    }
}
