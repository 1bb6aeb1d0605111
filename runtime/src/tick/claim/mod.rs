//! The claim of a tick: repeated with one token until the store has decided, or until the tick can no longer
//! start.

use std::sync::Arc;
use std::time::Duration;

use singleton_jobs_policy::Schedule;

use super::{TickEnd, TickOutcome, report};
use crate::Timestamp;
use crate::job::Job;
use crate::lease::{ClaimResult, HeldLease, PendingClaim};
use crate::observe::event::SkipReason;
use crate::observe::log;
use crate::server::{RunPermit, Server};
use crate::store::{
    Claim, ClaimDecision, ClaimPurpose, ClaimReply, StoreError, StoreErrorKind, TickClaim, UnfinishedTick,
};
use turns::ClaimTurn;
use window::ClaimWindow;

pub(crate) mod turns;
pub(crate) mod window;

pub(crate) enum ClaimOutcome {
    /// This server runs the tick.
    Won(HeldLease, RunPermit),
    NotWon(TickEnd),
}

impl ClaimOutcome {
    fn skipped(reason: SkipReason) -> Self {
        Self::not_won(TickOutcome::Skipped(reason), None)
    }

    fn not_won(outcome: TickOutcome, unfinished: Option<UnfinishedTick>) -> Self {
        Self::NotWon(TickEnd { outcome, unfinished })
    }
}

/// A tick is claimed again if the scheduler is at most this far ahead of the store's clock. Beyond, the
/// timetable is made anew.
const LONGEST_EARLY_WAIT: Duration = Duration::from_secs(1);

fn pending_claim(
    server: &Arc<Server>,
    job: &Arc<Job>,
    tick_claim: TickClaim,
    token: Arc<str>,
) -> PendingClaim {
    let claim = Claim {
        token,
        server: server.id.clone(),
        ttl: job.policy.ttl,
        what: ClaimPurpose::Tick(tick_claim),
        remember: server.history_limit,
        details: server.details_of(job),
    };
    PendingClaim::new(server, job.run_context(server).key(), job.policy.keep_alive, claim)
}

/// Asks the store about the claim. A server that could not join the fleet at its start does so first. The turn ends with the
/// answer.
async fn ask(
    server: &Server,
    pending: &mut PendingClaim,
    _turn: Option<ClaimTurn>,
) -> Result<ClaimResult, StoreError> {
    server.join_if_needed().await?;
    pending.ask().await
}

/// Claims a tick for as long as it may still start. Only the first request has a turn in a batch.
pub(crate) async fn claim_tick(
    server: &Arc<Server>,
    job: &Arc<Job>,
    tick_claim: TickClaim,
    token: Arc<str>,
    mut turn: Option<ClaimTurn>,
) -> ClaimOutcome {
    let mut window = ClaimWindow::new(job, &tick_claim);
    let tick = tick_claim.tick;
    let mut pending = pending_claim(server, job, tick_claim, token);
    // The error since which the store has not answered, or that a claim which may have won is not replicated.
    let mut last_error: Option<StoreError> = None;
    loop {
        let released = job.activity.released.get();
        // A busy server does not claim: it leaves the tick to the others. It keeps no permit while it waits.
        let permit = match server.free_permit() {
            Some(permit) => Some(permit),
            None => {
                drop(turn.take());
                window.wait_for_permit(server).await
            }
        };
        let permit = match (permit, window.reason_to_stop(server)) {
            (Some(permit), None) => permit,
            (permit, reason) => {
                drop((permit, turn.take()));
                if let (Some(SkipReason::StillRunning), Some(wait)) =
                    (&reason, window.wait_for_own_run(server))
                {
                    window.pause(server, wait, released).await;
                    continue;
                }
                return ClaimOutcome::skipped(match last_error {
                    Some(error) if reason != Some(SkipReason::Stopping) => undecided(&error),
                    _ => reason.unwrap_or(SkipReason::Busy),
                });
            }
        };
        if let ClaimPurpose::Tick(tick) = &mut pending.claim_mut().what {
            tick.known_for = server.begun.elapsed();
        }
        let answer = ask(server, &mut pending, turn.take()).await;
        if let Some(other) = pending.take_other_schedule() {
            report::other_schedule(server, job, &other);
        }
        if answer.is_ok() {
            last_error.take_if(|error| !is_not_replicated(Some(error)));
            server.health.job_answered(&job.policy.key);
        }
        let pause = match answer {
            Ok(ClaimResult::Won(lease)) if server.no_new_runs.is_raised() => {
                lease.release_unused(server);
                return ClaimOutcome::skipped(SkipReason::Stopping);
            }
            // A run on this server has lost its lease while the claim was in progress.
            Ok(ClaimResult::Won(lease)) if job.activity.has_unleased_run() => {
                lease.release_unused(server);
                return ClaimOutcome::skipped(SkipReason::StillRunning);
            }
            Ok(ClaimResult::Won(lease)) => return ClaimOutcome::Won(lease, permit),
            Ok(ClaimResult::TooLate(lease)) => {
                lease.release_unused(server);
                return ClaimOutcome::skipped(SkipReason::WonTooLate);
            }
            Ok(ClaimResult::Refused(ClaimReply { decision, unfinished, .. }, now)) => {
                let wait = match &decision {
                    ClaimDecision::Early(wait) if *wait <= LONGEST_EARLY_WAIT => {
                        log::early(server, job, tick, *wait);
                        Some(*wait)
                    }
                    ClaimDecision::Held(holder) => window.wait_for_holder(holder, now),
                    _ => None,
                };
                match (wait, &last_error) {
                    (Some(wait), _) => wait,
                    (None, Some(error)) if decision == ClaimDecision::Lost => {
                        let outcome = TickOutcome::Skipped(undecided(error));
                        return ClaimOutcome::not_won(outcome, unfinished);
                    }
                    (None, _) => return ClaimOutcome::not_won(refused(decision), unfinished),
                }
            }
            Err(error) => match window.pause_after(server, &error) {
                Some(pause) => {
                    if !is_not_replicated(last_error.as_ref()) || is_not_replicated(Some(&error)) {
                        last_error = Some(error);
                    }
                    pause
                }
                None => {
                    let error =
                        last_error.as_ref().filter(|last| is_not_replicated(Some(last))).unwrap_or(&error);
                    server.health.job_failed(&job.policy.key, error);
                    return ClaimOutcome::skipped(undecided(error));
                }
            },
        };
        drop(permit);
        window.pause(server, pause, released).await;
        window.wait_for_application(server).await;
    }
}

/// The claim of a tick that is due.
pub(crate) fn due(job: &Job, tick: Timestamp, previous: Option<Timestamp>, grace: Duration) -> TickClaim {
    let policy = &job.policy;
    TickClaim {
        tick,
        previous,
        delay: policy.delay_of(tick),
        grace,
        only_takes_over: false,
        overlap: policy.overlap,
        takeovers: policy.allowed_takeovers(),
        missed: policy.missed,
        schedule: policy.schedule.as_ref().map(Schedule::text).unwrap_or_default(),
        known_for: Duration::ZERO,
    }
}

/// The claim of a tick that was started and whose server may be gone.
pub(crate) fn takeover(job: &Job, tick: Timestamp) -> TickClaim {
    TickClaim { only_takes_over: true, ..due(job, tick, None, Duration::ZERO) }
}

fn is_not_replicated(error: Option<&StoreError>) -> bool {
    error.is_some_and(|error| error.kind() == StoreErrorKind::NotReplicated)
}

/// The claim ended without a decision that this server can act on.
fn undecided(error: &StoreError) -> SkipReason {
    match error.kind() {
        StoreErrorKind::NotReplicated => SkipReason::NotReplicated(error.to_string()),
        _ => SkipReason::StoreUnavailable(error.to_string()),
    }
}

fn refused(reply: ClaimDecision) -> TickOutcome {
    TickOutcome::Skipped(match reply {
        ClaimDecision::Early(_) => return TickOutcome::NotDue,
        // `Lost`: an earlier request of this claim had won, and its lease was over before its answer arrived.
        ClaimDecision::Won(_) | ClaimDecision::Lost => SkipReason::WonTooLate,
        ClaimDecision::Taken(taken) => SkipReason::Taken(taken),
        ClaimDecision::Superseded(mark) => SkipReason::Superseded(mark),
        ClaimDecision::Ahead(mark) => SkipReason::MarkAhead(mark),
        ClaimDecision::Unregistered | ClaimDecision::NotRequested | ClaimDecision::Done(_) => {
            SkipReason::Unregistered
        }
        ClaimDecision::Paused(pause) => SkipReason::Paused(pause),
        ClaimDecision::Late(by) => SkipReason::Late(by),
        ClaimDecision::Held(holder) => SkipReason::Held(holder),
    })
}
