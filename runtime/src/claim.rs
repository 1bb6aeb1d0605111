//! The claim of a tick: asked with one token until the store has decided, for as long as it is worth asking.

use std::sync::Arc;
use std::time::Duration;

use singleton_jobs_policy::{Missed, Schedule};

use crate::Timestamp;
use crate::event::SkipReason;
use crate::job::Job;
use crate::lease::HeldLease;
use crate::log;
use crate::report;
use crate::server::{Server, Slot};
use crate::store::{
    Claim, ClaimReply, StoreError, StoreErrorKind, TickClaim, Unfinished, Verdict, What, Won,
};
use crate::waiting::Waiting;

/// A tick that this server asks for.
#[derive(Clone, Copy)]
pub(crate) struct Ask {
    pub(crate) tick: Timestamp,
    pub(crate) grace: Duration,
    pub(crate) purpose: Purpose,
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Purpose {
    /// The tick is due.
    Due,
    /// It was started, and its server may be gone.
    TakeOver,
}

pub(crate) type Claimed = Result<Win, NotWon>;

/// A lease that was won, before its run.
pub(crate) struct Win {
    pub(crate) lease: HeldLease,
    pub(crate) slot: Slot,
    pub(crate) missed_after: Option<Timestamp>,
    pub(crate) usual: Option<Duration>,
}

pub(crate) struct NotWon {
    /// `None` if the tick is not due: the scheduler's clock was fast.
    pub(crate) reason: Option<SkipReason>,
    /// A tick that may have to be taken over.
    pub(crate) unfinished: Option<Unfinished>,
}

impl From<SkipReason> for NotWon {
    fn from(reason: SkipReason) -> Self {
        Self { reason: Some(reason), unfinished: None }
    }
}

/// The scheduler may be this far ahead of the store's clock and simply wait; beyond, it must plan anew.
const WORTH_WAITING: Duration = Duration::from_secs(1);

/// Asks for a tick for as long as it may still start.
///
/// Every request carries the same token, so a request whose reply was lost can be repeated: it wins again,
/// or learns that it lost. Once the token is released no request with it is sent.
pub(crate) async fn claim_tick(server: Arc<Server>, job: Arc<Job>, ask: Ask, token: Arc<str>) -> Claimed {
    let (server, job) = (&server, &job);
    let mut claim = Claim {
        token,
        server: server.id.clone(),
        ttl: job.policy.ttl,
        what: What::Tick(tick_claim(job, ask)),
        remember: server.remember,
        waits: false,
    };
    let mut waiting = Waiting::new(job, ask);
    // Why a lease that was won is not used yet.
    let mut unused: Option<StoreError> = None;
    loop {
        let released = job.here.released.get();
        // A busy server does not claim: it leaves the tick to the others. Nor is a place kept while waiting.
        let slot = match server.free_slot() {
            Some(slot) => Some(slot),
            None => waiting.for_a_slot(server).await,
        };
        let slot = match (slot, waiting.reason_to_stop(server)) {
            (Some(slot), None) => slot,
            (slot, why) => {
                drop(slot);
                if let (Some(SkipReason::StillRunning), Some(wait)) = (&why, waiting.time_for_own_run(server))
                {
                    waiting.pause(server, wait, released).await;
                    continue;
                }
                if waiting.backoff.failed() {
                    HeldLease::give_back(server, &job.policy.key, claim);
                }
                return Err(match unused {
                    Some(error) if why != Some(SkipReason::Stopping) => unanswered(&error).into(),
                    _ => why.unwrap_or(SkipReason::Busy).into(),
                });
            }
        };
        let sent = server.time.moment();
        if let What::Tick(tick) = &mut claim.what {
            tick.known_for = sent.steady.duration_since(server.begun);
        }
        let request = server.store.claim(&job.policy.key, &claim);
        let pause = match server.ask("claim", request_timeout(claim.ttl), request).await {
            Ok(answer) => {
                let Verdict { decision, unfinished, other_schedule } = answer.reply;
                if let Some(other) = other_schedule {
                    report::other_schedule(server, job, &other);
                }
                let wait = match &decision {
                    ClaimReply::Early(wait) if *wait <= WORTH_WAITING => {
                        log::early(server, job, ask.tick, *wait);
                        Some(*wait)
                    }
                    ClaimReply::Held(holder) => waiting.time_to_wait_for(holder, answer.at),
                    _ => None,
                };
                match (decision, wait) {
                    (ClaimReply::Won(won), _) => {
                        let (key, keep_alive) = (job.home(server).key(), job.policy.keep_alive);
                        let lease = HeldLease::won(server, key, keep_alive, claim, won, sent, answer.at);
                        if let Some(why) = reason_not_to_start(server, &lease) {
                            lease.give_up(server);
                            return Err(why.into());
                        }
                        let Won { missed_after, usual, .. } = won;
                        return Ok(Win { lease, slot, missed_after, usual });
                    }
                    (_, Some(wait)) => wait,
                    (ClaimReply::Lost, None) if unused.is_some() => {
                        let reason = unused.as_ref().map(unanswered);
                        return Err(NotWon { reason, unfinished });
                    }
                    (refusal, None) => return Err(NotWon { reason: refused(refusal), unfinished }),
                }
            }
            Err(error) => match waiting.pause_after(server, &error) {
                Some(pause) => {
                    if error.kind() == StoreErrorKind::NotReplicated {
                        unused = Some(error);
                    }
                    pause
                }
                None => {
                    HeldLease::give_back(server, &job.policy.key, claim);
                    return Err(unanswered(unused.as_ref().unwrap_or(&error)).into());
                }
            },
        };
        drop(slot);
        waiting.pause(server, pause, released).await;
    }
}

fn tick_claim(job: &Job, ask: Ask) -> TickClaim {
    let policy = &job.policy;
    // A tick is taken over whatever its grace; but if the store knows nothing of it, it must not begin anew.
    let (grace, missed) = match ask.purpose {
        Purpose::Due => (ask.grace, policy.missed),
        Purpose::TakeOver => (Duration::ZERO, Missed::Skip),
    };
    TickClaim {
        tick: ask.tick,
        delay: policy.delay_of(ask.tick),
        grace,
        overlap: policy.overlap,
        takeovers: policy.allowed_takeovers(),
        missed,
        schedule: policy.schedule.as_ref().map(Schedule::text).unwrap_or_default(),
        known_for: Duration::ZERO,
    }
}

/// A request may take this long: several must fit into a lease.
pub(crate) fn request_timeout(ttl: Duration) -> Duration {
    (ttl / 6).min(Duration::from_secs(5))
}

/// A lease that cannot be used any more, or must not be, and why.
fn reason_not_to_start(server: &Server, lease: &HeldLease) -> Option<SkipReason> {
    if server.stop.is_raised() {
        return Some(SkipReason::Stopping);
    }
    lease.proof().is_lost().then_some(SkipReason::WonTooLate)
}

/// The claim ended without a decision that this server can act on.
fn unanswered(error: &StoreError) -> SkipReason {
    match error.kind() {
        StoreErrorKind::NotReplicated => SkipReason::NotReplicated(error.to_string()),
        _ => SkipReason::StoreUnavailable(error.to_string()),
    }
}

fn refused(reply: ClaimReply) -> Option<SkipReason> {
    Some(match reply {
        ClaimReply::Early(_) => return None,
        // `Lost`: an earlier request of this claim had won, and its lease was over before we heard of it.
        ClaimReply::Won(_) | ClaimReply::Lost => SkipReason::WonTooLate,
        ClaimReply::Taken(taken) => SkipReason::Taken(taken),
        ClaimReply::Superseded(mark) => SkipReason::Superseded(mark),
        ClaimReply::Ahead(mark) => SkipReason::MarkAhead(mark),
        ClaimReply::Unregistered | ClaimReply::NotRequested | ClaimReply::Done(_) => SkipReason::Unregistered,
        ClaimReply::Paused => SkipReason::Paused,
        ClaimReply::Late(by) => SkipReason::Late(by),
        ClaimReply::Held(holder) => SkipReason::Held(holder),
    })
}
