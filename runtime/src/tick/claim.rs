//! The claim of a tick: asked with one token until the store has decided, for as long as it is worth asking.

use std::sync::Arc;
use std::time::Duration;

use singleton_jobs_policy::Schedule;

use super::report;
use super::waiting::Waiting;
use crate::Timestamp;
use crate::job::Job;
use crate::lease::{Asked, HeldLease, PendingClaim};
use crate::observe::event::SkipReason;
use crate::observe::log;
use crate::server::{Server, Slot};
use crate::store::{
    Claim, ClaimAnswer, ClaimPurpose, ClaimReply, Gap, StoreError, StoreErrorKind, TickClaim, UnfinishedTick,
    WonClaim,
};
use crate::util::token::token;

/// A tick that this server asks for.
#[derive(Clone, Copy)]
pub(crate) struct Ask {
    pub(crate) tick: Timestamp,
    /// The tick before it.
    pub(crate) previous: Option<Timestamp>,
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

/// A lease that was won, before its run.
pub(crate) struct Win {
    pub(crate) lease: HeldLease,
    pub(crate) slot: Slot,
    /// Ticks that no server has run, skipped or reported.
    pub(crate) missed: Vec<Gap>,
    pub(crate) usual: Option<Duration>,
}

pub(crate) struct NotWon {
    /// `None` if the tick is not due: the scheduler's clock was fast.
    pub(crate) reason: Option<SkipReason>,
    /// A tick that may have to be taken over.
    pub(crate) unfinished: Option<UnfinishedTick>,
}

impl From<SkipReason> for NotWon {
    fn from(reason: SkipReason) -> Self {
        Self { reason: Some(reason), unfinished: None }
    }
}

/// The scheduler may be this far ahead of the store's clock and simply wait; beyond, it must plan anew.
const WORTH_WAITING: Duration = Duration::from_secs(1);

/// Asks for a tick for as long as it may still start.
pub(crate) async fn claim_tick(server: &Arc<Server>, job: &Arc<Job>, ask: Ask) -> Result<Win, NotWon> {
    let claim = Claim {
        token: token(),
        server: server.id.clone(),
        ttl: job.policy.ttl,
        what: ClaimPurpose::Tick(tick_claim(job, ask)),
        remember: server.remember,
    };
    let mut pending = PendingClaim::new(server, job.home(server).key(), job.policy.keep_alive, claim);
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
                return Err(match unused {
                    Some(error) if why != Some(SkipReason::Stopping) => unanswered(&error).into(),
                    _ => why.unwrap_or(SkipReason::Busy).into(),
                });
            }
        };
        if let ClaimPurpose::Tick(tick) = &mut pending.claim_mut().what {
            tick.known_for = server.begun.elapsed();
        }
        let asked = pending.ask().await;
        if let Some(other) = pending.take_other_schedule() {
            report::other_schedule(server, job, &other);
        }
        if asked.is_ok() {
            server.health.job_answered(&job.policy.key);
        }
        let pause = match asked {
            Ok(Asked::Won(lease, _)) if server.stop.is_raised() => {
                lease.give_up(server);
                return Err(SkipReason::Stopping.into());
            }
            // A run here has lost its lease while the claim was under way.
            Ok(Asked::Won(lease, _)) if job.here.has_astray_run() => {
                lease.give_up(server);
                return Err(SkipReason::StillRunning.into());
            }
            Ok(Asked::Won(lease, WonClaim { missed, usual, .. })) => {
                return Ok(Win { lease, slot, missed, usual });
            }
            Ok(Asked::TooLate(lease)) => {
                lease.give_up(server);
                return Err(SkipReason::WonTooLate.into());
            }
            Ok(Asked::Refused(ClaimAnswer { decision, unfinished, .. }, now)) => {
                let wait = match &decision {
                    ClaimReply::Early(wait) if *wait <= WORTH_WAITING => {
                        log::early(server, job, ask.tick, *wait);
                        Some(*wait)
                    }
                    ClaimReply::Held(holder) => waiting.time_to_wait_for(holder, now),
                    _ => None,
                };
                match (decision, wait) {
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
                    let error = unused.as_ref().unwrap_or(&error);
                    server.health.job_failed(&job.policy.key, error);
                    return Err(unanswered(error).into());
                }
            },
        };
        drop(slot);
        waiting.pause(server, pause, released).await;
        waiting.for_the_application(server).await;
    }
}

fn tick_claim(job: &Job, ask: Ask) -> TickClaim {
    let policy = &job.policy;
    TickClaim {
        tick: ask.tick,
        previous: ask.previous,
        delay: policy.delay_of(ask.tick),
        grace: ask.grace,
        only_takes_over: ask.purpose == Purpose::TakeOver,
        overlap: policy.overlap,
        takeovers: policy.allowed_takeovers(),
        missed: policy.missed,
        schedule: policy.schedule.as_ref().map(Schedule::text).unwrap_or_default(),
        known_for: Duration::ZERO,
    }
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
