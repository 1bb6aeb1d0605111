//! One tick on one server: claim → run under a lease → release → record.

use std::sync::Arc;

use tokio::sync::Notify;

use crate::Timestamp;
use crate::history::{RunOutcome, RunRecord};
use crate::job::Job;
use crate::job::run::Run;
use crate::lease::HeldLease;
use crate::observe::event::SkipReason;
use crate::server::running::CountedRun;
use crate::server::{RunPermit, Server};
use crate::store::{TickClaim, UnfinishedTick};
use crate::util::token::token;
use claim::{ClaimOutcome, claim_tick};
use execute::Execution;
use try_task::TryTask;

pub(crate) mod batch;
pub(crate) mod claim;
pub(crate) mod clock_watch;
pub(crate) mod execute;
pub(crate) mod poll_tracker;
pub(crate) mod report;
pub(crate) mod retry;
pub(crate) mod scheduler;
pub(crate) mod takeover;
pub(crate) mod timetable;
pub(crate) mod try_task;

/// The end of a tick on this server.
pub(crate) struct TickEnd {
    pub(crate) outcome: TickOutcome,
    /// A tick that may have to be taken over.
    pub(crate) unfinished: Option<UnfinishedTick>,
}

pub(crate) enum TickOutcome {
    /// The tick ran here.
    Ran(RunRecord),
    /// The tick did not run here. That is not an error.
    Skipped(SkipReason),
    /// The tick is not due yet: the scheduler's clock was fast.
    NotDue,
}

/// Claims a tick, and runs it if this server wins.
pub(crate) async fn run_tick(server: &Arc<Server>, job: &Arc<Job>, tick_claim: TickClaim) -> TickEnd {
    let tick = tick_claim.tick;
    // Boxed, like the rest of a run, so that their sizes do not add up.
    let claimed = Box::pin(claim_tick(server, job, tick_claim, token(), None)).await;
    DecidedTick::start(server, job, tick, claimed).end(job).await
}

/// A tick whose claim was decided. If this server has won, its run has started.
pub(crate) struct DecidedTick {
    tick: Timestamp,
    claimed: Result<StartedRun, TickEnd>,
}

impl DecidedTick {
    /// Starts the run of a tick that was won.
    fn start(server: &Arc<Server>, job: &Arc<Job>, tick: Timestamp, claimed: ClaimOutcome) -> Self {
        let claimed = match claimed {
            ClaimOutcome::Won(lease, permit) => Ok(StartedRun::start(server, job, lease, permit)),
            ClaimOutcome::NotWon(end) => Err(end),
        };
        Self { tick, claimed }
    }

    /// Waits for the end of the run, if there is one.
    async fn end(self, job: &Job) -> TickEnd {
        let outcome = match self.claimed {
            Ok(run) => Box::pin(run.finish()).await,
            Err(end) if end.unfinished.is_some() => return end,
            Err(end) => end.outcome,
        };
        let unfinished = takeover::unfinished(job, self.tick, &outcome);
        TickEnd { outcome, unfinished }
    }
}

/// A run that has started under a lease that was won, for a tick or manually.
pub(crate) struct StartedRun {
    lease: HeldLease,
    permit: RunPermit,
    run: Run,
    execution: Execution,
    first_try: TryTask,
    in_progress: CountedRun,
}

impl StartedRun {
    pub(crate) fn start(server: &Arc<Server>, job: &Arc<Job>, lease: HeldLease, permit: RunPermit) -> Self {
        let run = Run::new(job.run_context(server).clone(), &lease);
        let execution = Execution::new(server, job, &run, &lease);
        let in_progress = CountedRun::new(server, job, run.fence(), lease.check().clone());
        // Last: what panicked after it would leave a run that is not watched.
        let first_try = execution.start();
        Self { lease, permit, run, execution, first_try, in_progress }
    }

    /// Watches over the run, releases its lease when its future is gone, and records it.
    pub(crate) async fn finish(self) -> TickOutcome {
        let Self { mut lease, permit, run, mut execution, first_try, in_progress } = self;
        report::missed(&execution.server, &execution.job, &lease.take_missed());

        let ended = Notify::new();
        let (ending, _) = tokio::join!(
            async {
                let ending = execution.watch(first_try).await;
                ended.notify_one();
                ending
            },
            lease.keep_alive(&execution.server, Some(&run), ended.notified()),
        );
        let is_stopping = execution.server.no_new_runs.is_raised();
        drop(permit);
        let ending = lease.settle(&execution.server, &run, ending).await;
        let record = lease.record(&run, execution.server.time.now(), &ending);
        // Before the release, which may wait long for the store.
        execution.close_span(&record);
        let lease_lost = record.outcome == RunOutcome::LeaseLost;
        if lease_lost {
            // Reported before the release: the store is probably unreachable, and the release waits for it.
            execution.report_end(&record);
        }
        // The job's future is gone and the keep-alive has ended. The lease must not be released before that.
        lease.release(&execution.server, Some(&run), &ending).await;
        execution.job.activity.released.count_up();
        drop(in_progress);
        if record.outcome == RunOutcome::NotStarted {
            let reason = if is_stopping { SkipReason::Stopping } else { SkipReason::ApplicationBlocked };
            return TickOutcome::Skipped(reason);
        }
        if !lease_lost {
            execution.report_end(&record);
        }
        TickOutcome::Ran(record)
    }
}
