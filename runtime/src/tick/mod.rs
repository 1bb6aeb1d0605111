//! One tick on one server: claim → run under a lease → release → record.

use std::sync::Arc;

use tokio::sync::Notify;

use crate::history::{RunOutcome, RunRecord};
use crate::job::Job;
use crate::job::run::Run;
use crate::lease::HeldLease;
use crate::observe::event::SkipReason;
use crate::server::{RunPermit, Server};
use crate::store::{TickClaim, UnfinishedTick};
use crate::util::yield_to_ready_tasks;
use claim::batch::ClaimTurn;
use claim::{ClaimOutcome, claim_tick};
use execute::Execution;

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
pub(crate) async fn run_tick(
    server: &Arc<Server>,
    job: &Arc<Job>,
    tick_claim: TickClaim,
    turn: Option<ClaimTurn>,
) -> TickEnd {
    let tick = tick_claim.tick;
    let outcome = match claim_tick(server, job, tick_claim, turn).await {
        ClaimOutcome::Won(lease, permit) => run_under_lease(server, job, lease, permit).await,
        ClaimOutcome::NotWon(report) if report.unfinished.is_some() => return report,
        ClaimOutcome::NotWon(report) => report.outcome,
    };
    let unfinished = takeover::unfinished(job, tick, &outcome);
    TickEnd { outcome, unfinished }
}

/// Runs a job under a lease that was won, for a tick or manually, from its start to its record.
pub(crate) async fn run_under_lease(
    server: &Arc<Server>,
    job: &Arc<Job>,
    mut lease: HeldLease,
    permit: RunPermit,
) -> TickOutcome {
    let run = Run::new(job.run_context(server).clone(), &lease);
    let mut execution = Execution::new(server, job, &run, &lease);
    let first_try = execution.start();
    let in_progress = server.running.enter(job, run.fence(), lease.check().clone());
    report::missed(server, job, &lease.take_missed());
    // Runs that can start now all do so before the first of them is watched.
    yield_to_ready_tasks().await;

    let ended = Notify::new();
    let (ending, _) = tokio::join!(
        async {
            let ending = execution.watch(first_try).await;
            ended.notify_one();
            ending
        },
        lease.keep_alive(server, Some(&run), ended.notified()),
    );
    let is_stopping = server.no_new_runs.is_raised();
    drop(permit);
    let ending = lease.settle(server, &run, ending).await;
    let record = lease.record(&run, server.time.now(), &ending);
    // Before the release, which may wait long for the store.
    execution.close_span(&record);
    let lease_lost = record.outcome == RunOutcome::LeaseLost;
    if lease_lost {
        // Reported before the release: the store is probably unreachable, and the release waits for it.
        execution.report_end(&record);
    }
    // The job's future is gone and the keep-alive has ended. The lease must not be released before that.
    lease.release(server, Some(&run), &ending).await;
    job.activity.released.count_up();
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
