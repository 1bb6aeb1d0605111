//! One tick on one server: claim → run under a lease → release → record.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use crate::history::{RunOutcome, RunRecord};
use crate::job::Job;
use crate::job::run::Run;
use crate::observe::event::SkipReason;
use crate::server::Server;
use crate::store::UnfinishedTick;
use claim::{Ask, NotWon, Win, claim_tick};
use execute::Execution;

pub(crate) mod claim;
pub(crate) mod clock_watch;
pub(crate) mod execute;
pub(crate) mod polls;
pub(crate) mod report;
pub(crate) mod retry;
pub(crate) mod scheduler;
pub(crate) mod takeover;
pub(crate) mod timetable;
pub(crate) mod waiting;

/// What became of a tick on this server.
pub(crate) enum Outcome {
    /// It ran here, and this is its record.
    Ran(RunRecord),
    /// It did not run here, and that is no error.
    Skipped(SkipReason),
    /// The scheduler's clock was fast.
    NotDue,
}

/// Claims a tick and runs it, if this server wins it. Returns a tick that may have to be taken over, too.
pub(crate) async fn run_tick(
    server: &Arc<Server>,
    job: &Arc<Job>,
    ask: Ask,
) -> (Outcome, Option<UnfinishedTick>) {
    let outcome = match claim_tick(server, job, ask).await {
        Ok(win) => run_under_lease(server, job, win).await,
        Err(NotWon { reason, unfinished: Some(unfinished) }) => {
            return (reason.map_or(Outcome::NotDue, Outcome::Skipped), Some(unfinished));
        }
        Err(NotWon { reason, .. }) => reason.map_or(Outcome::NotDue, Outcome::Skipped),
    };
    // A lease that was lost here has ended, or is about to.
    let remaining = matches!(outcome, Outcome::Ran(_)).then_some(Duration::ZERO);
    let unfinished = UnfinishedTick { tick: ask.tick, remaining };
    let may_be_taken_over = job.policy.allowed_takeovers() > 0 && outcome.may_be_unfinished();
    (outcome, may_be_taken_over.then_some(unfinished))
}

/// Runs a job under a lease that was won, for a tick or for none, from its start to its record.
pub(crate) async fn run_under_lease(server: &Arc<Server>, job: &Arc<Job>, win: Win) -> Outcome {
    let Win { mut lease, slot, missed, usual } = win;
    let id = lease.run_ref();
    let run = Run::new(job.home(server).clone(), id);
    let (execution, first_try) = Execution::start(server, job, &run, &lease, usual);
    let in_progress = server.running.enter(job, id.fence);
    report::missed(server, job, &missed);
    lease.reported_missed(&missed);

    let ended = Notify::new();
    let (ending, _) = tokio::join!(
        async {
            let ending = execution.watch(first_try).await;
            ended.notify_one();
            ending
        },
        lease.keep_alive(server, Some(&run), ended.notified()),
    );
    drop(slot);
    let record = lease.record(&run, server.time.now(), &ending);
    // Most often the store is unreachable then, and the release waits for it.
    let lost = record.outcome == RunOutcome::LeaseLost;
    if lost {
        report::ended(server, job, id, &record);
    }
    // The job's future is gone and keep-alive has ended: now, and not before, the lease can go.
    lease.release(server, Some(&run), &ending).await;
    job.here.released.count_up();
    drop(in_progress);
    if record.outcome == RunOutcome::NotStarted {
        return Outcome::Skipped(SkipReason::ApplicationBlocked);
    }
    if !lost {
        report::ended(server, job, id, &record);
    }
    Outcome::Ran(record)
}

impl Outcome {
    /// Whether the store may have it as started and not finished, and no other server may know.
    fn may_be_unfinished(&self) -> bool {
        match self {
            Self::Ran(record) => record.outcome == RunOutcome::LeaseLost,
            Self::Skipped(reason) => matches!(
                reason,
                SkipReason::WonTooLate
                    | SkipReason::NotReplicated(_)
                    | SkipReason::StoreUnavailable(_)
                    | SkipReason::StillRunning
                    | SkipReason::ApplicationBlocked
                    | SkipReason::Busy
            ),
            Self::NotDue => false,
        }
    }
}
