//! The claim of a tick: asked with one token until the store has answered or the tick's grace is over.

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use crate::Timestamp;
use crate::job::Job;
use crate::lease::HeldLease;
use crate::server::{Server, Slot};
use crate::store::model::UNKNOWN_FENCE;
use crate::store::{Claim, ClaimReply, Ending, Lease, TickClaim, What, Won};
use crate::store_time::Moment;
use crate::tick::{Skipped, TickOutcome};

pub(crate) enum Claimed<'a> {
    Won(HeldLease, Slot<'a>),
    No(TickOutcome),
}

impl From<Skipped> for Claimed<'_> {
    fn from(why: Skipped) -> Self {
        Self::No(TickOutcome::Skipped(why))
    }
}

/// The scheduler may be this far ahead of the store's clock and simply wait; beyond, it must plan anew.
const WORTH_WAITING: Duration = Duration::from_secs(1);

/// Asks for a tick for as long as it may still start.
///
/// Every request carries the same token, so a request whose reply was lost can be repeated: it wins again,
/// or learns that it lost. Once the token is released no request with it is sent.
pub(crate) async fn claim_tick<'a>(server: &'a Arc<Server>, job: &Arc<Job>, ask: TickClaim) -> Claimed<'a> {
    let tick = ask.tick;
    let last_start = tick.plus(ask.delay).plus(ask.grace);
    let claim = Claim {
        token: Uuid::new_v4().to_string(),
        server: server.id.clone(),
        ttl: job.policy.ttl,
        what: What::Tick(TickClaim { known_for: server.begun.elapsed(), ..ask }),
        remember: server.remember,
    };
    let mut backoff = Backoff::new();
    loop {
        // A busy server does not claim: it leaves the tick to the others. Nor is a place kept while waiting.
        let slot = tokio::select! {
            biased;
            slot = server.slot(last_start) => slot,
            () = server.stop.cancelled() => None,
            () = job.superseded(tick) => None,
        };
        let why_not = reason_to_stop(server, job, tick);
        let slot = match (slot, why_not) {
            (Some(slot), None) => slot,
            (_, why) => return given_up(server, job, claim, &backoff, why.unwrap_or(Skipped::Busy)),
        };
        let sent = server.time.moment();
        let request = server.store.claim(&job.policy.key, &claim);
        let pause = match server.ask("claim", request_timeout(claim.ttl), request).await {
            Ok(answer) => match answer.reply.decision {
                ClaimReply::Won(won) => return won_at(server, job, slot, claim, won, sent, answer.at).await,
                ClaimReply::Early(wait) if wait <= WORTH_WAITING => wait,
                refusal => return Claimed::No(refused(refusal)),
            },
            Err(error) => {
                let pause = backoff.next();
                if !error.kind().may_pass_soon() || server.time.now().plus(pause) >= last_start {
                    give_back(server, job, claim);
                    return Claimed::No(TickOutcome::Unavailable(error));
                }
                pause
            }
        };
        drop(slot);
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = server.stop.cancelled() => {}
            () = job.superseded(tick) => {}
        }
    }
}

fn reason_to_stop(server: &Server, job: &Job, tick: Timestamp) -> Option<Skipped> {
    if server.stop.is_cancelled() {
        return Some(Skipped::Stopping);
    }
    let newest = *job.newest.borrow();
    (newest > tick).then_some(Skipped::Superseded(newest))
}

/// A request may take this long: several must fit into a lease.
pub(crate) fn request_timeout(ttl: Duration) -> Duration {
    (ttl / 6).min(Duration::from_secs(5))
}

async fn won_at<'a>(
    server: &'a Arc<Server>,
    job: &Arc<Job>,
    slot: Slot<'a>,
    claim: Claim,
    won: Won,
    sent: Moment,
    at: Timestamp,
) -> Claimed<'a> {
    let lease = Lease {
        token: claim.token,
        server: claim.server,
        ttl: claim.ttl,
        tick: match &claim.what {
            What::Tick(ask) => Some(ask.tick),
            What::Now | What::Requested(_) => None,
        },
        attempt: won.attempt,
        fence: won.fence,
        since: won.since,
        until: won.until,
        progress: None,
    };
    let held = HeldLease::new(server, job, lease, sent, won.until.since(at));
    if held.proof().is_lost() || server.stop.is_cancelled() {
        held.release(server, &Ending::not_started()).await;
        let why = if server.stop.is_cancelled() { Skipped::Stopping } else { Skipped::WonTooLate };
        return why.into();
    }
    Claimed::Won(held, slot)
}

fn refused(reply: ClaimReply) -> TickOutcome {
    TickOutcome::Skipped(match reply {
        ClaimReply::Early(_) => return TickOutcome::NotDue,
        // `Lost`: an earlier request of this claim had won, and its lease was over before we heard of it.
        ClaimReply::Won(_) | ClaimReply::Lost => Skipped::WonTooLate,
        ClaimReply::Unregistered | ClaimReply::NotRequested => Skipped::Unregistered,
        ClaimReply::Taken(taken) => Skipped::Taken(taken),
        ClaimReply::Superseded(mark) => Skipped::Superseded(mark),
        ClaimReply::Ahead(mark) => Skipped::Ahead(mark),
        ClaimReply::Paused => Skipped::Paused,
        ClaimReply::Late(by) => Skipped::Late(by),
        ClaimReply::Held(holder) => Skipped::Held(holder),
    })
}

fn given_up<'a>(
    server: &Arc<Server>,
    job: &Arc<Job>,
    claim: Claim,
    backoff: &Backoff,
    why: Skipped,
) -> Claimed<'a> {
    if backoff.failed() {
        give_back(server, job, claim);
    }
    why.into()
}

/// A request without an answer may have won: release whatever it won, beside everything else.
fn give_back(server: &Arc<Server>, job: &Arc<Job>, claim: Claim) {
    let (server, job) = (server.clone(), job.clone());
    server.clone().ticks.spawn(async move {
        let lease = Lease {
            token: claim.token,
            server: claim.server,
            ttl: claim.ttl,
            tick: None,
            attempt: 0,
            fence: UNKNOWN_FENCE,
            since: Timestamp::default(),
            until: Timestamp::default(),
            progress: None,
        };
        let held = HeldLease::new(&server, &job, lease, server.time.moment(), Duration::ZERO);
        held.release(&server, &Ending::not_started()).await;
    });
}

/// Growing pauses with jitter, so that a fleet does not come back in the same millisecond.
pub(crate) struct Backoff {
    failures: u32,
}

impl Backoff {
    pub(crate) fn new() -> Self {
        Self { failures: 0 }
    }

    pub(crate) fn failed(&self) -> bool {
        self.failures > 0
    }

    /// 25–50 ms, then doubling up to 1–2 s.
    pub(crate) fn next(&mut self) -> Duration {
        let base = Duration::from_millis(25) * 2_u32.pow(self.failures.min(5));
        self.failures += 1;
        base + base * u32::from(Uuid::new_v4().as_bytes()[0]) / 256
    }

    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }
}
