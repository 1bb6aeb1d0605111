//! The path of a tick on one server, once it is claimed: start → run under a lease → release with a record.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use crate::claim::{Ask, NotWon, Win};
use crate::event::{EventKind, RunRef, SkipReason};
use crate::execute::{self, Execution};
use crate::job::Job;
use crate::proof::Proof;
use crate::report;
use crate::run::Run;
use crate::server::Server;
use crate::store::{RunOutcome, RunRecord, Unfinished};

/// What became of a tick on this server.
pub(crate) enum Outcome {
    /// It ran here, and this is its record.
    Ran(RunRecord),
    /// It did not run here, and that is no error.
    Skipped(SkipReason),
    /// The scheduler's clock was fast.
    NotDue,
}

/// A run that has begun, or why none did.
pub(crate) type Begun = Result<Started, NotWon>;

/// A run that has begun, and its lease.
pub(crate) struct Started {
    pub(crate) win: Win,
    pub(crate) first_try: FirstTry,
}

/// A run on the application's runtime.
pub(crate) struct FirstTry {
    run: Run,
    task: execute::Task,
}

/// All that it takes to start a run. The rest of a win need not go along to another thread.
pub(crate) struct Startable {
    job: Arc<Job>,
    id: RunRef,
    proof: Arc<Proof>,
}

impl Startable {
    pub(crate) fn new(job: &Arc<Job>, win: &Win) -> Self {
        Self { job: job.clone(), id: win.lease.run_ref(), proof: win.lease.proof().clone() }
    }

    pub(crate) fn start(self, server: &Arc<Server>) -> FirstTry {
        let run = Run::new(self.job.home(server).clone(), self.id);
        let task = execute::start(server, self.job, &run, self.proof);
        FirstTry { run, task }
    }
}

/// Starts the run of a tick that was won. Nothing else is done before: others may be due at the same time.
pub(crate) fn start(server: &Arc<Server>, job: &Arc<Job>, win: Win) -> Started {
    let first_try = Startable::new(job, &win).start(server);
    Started { win, first_try }
}

/// What becomes of a tick that was claimed here, and a tick that is unfinished afterwards.
pub(crate) async fn finish(
    server: &Server,
    job: &Arc<Job>,
    ask: Ask,
    begun: Begun,
) -> (Outcome, Option<Unfinished>) {
    let outcome = match begun {
        Ok(started) => Outcome::Ran(under_lease(server, job, started).await),
        Err(NotWon { unfinished: Some(unfinished), reason }) => {
            return (reason.map_or(Outcome::NotDue, Outcome::Skipped), Some(unfinished));
        }
        Err(NotWon { reason, .. }) => reason.map_or(Outcome::NotDue, Outcome::Skipped),
    };
    // A lease that was lost here has ended, or is about to.
    let remaining = matches!(outcome, Outcome::Ran(_)).then_some(Duration::ZERO);
    let unfinished = Unfinished { tick: ask.tick, remaining };
    let may_be_taken_over = job.policy.allowed_takeovers() > 0 && outcome.may_be_unfinished();
    (outcome, may_be_taken_over.then_some(unfinished))
}

/// A run, from its start to its record.
pub(crate) async fn under_lease(server: &Server, job: &Arc<Job>, started: Started) -> RunRecord {
    let Started { win, first_try: FirstTry { run, task } } = started;
    let Win { mut lease, slot, missed_after, usual } = win;
    let id = lease.run_ref();
    let _running = server.running.enter(job, id.fence);
    let proof = lease.proof().clone();
    let execution = Execution { server, job, id, proof: &proof, usual };
    report::missed(server, job, missed_after, id.tick);
    server.tell(Some(job), if id.attempt == 1 { EventKind::Started(id) } else { EventKind::TakenOver(id) });

    let ended = Notify::new();
    let (ending, _) = tokio::join!(
        async {
            let ending = execution.watch(&run, task).await;
            ended.notify_one();
            ending
        },
        lease.keep_alive(server, Some(&run), ended.notified()),
    );
    drop(slot);
    let record = RunRecord {
        tick: id.tick,
        server: server.id.to_string(),
        fence: id.fence,
        attempt: id.attempt,
        started: lease.since(),
        ended: server.time.now(),
        outcome: ending.outcome,
        error: ending.error.clone(),
        failed_tries: ending.failed_tries.clone(),
        progress: run.said(),
    };
    // Most often the store is away then, and the release waits for it.
    let lost = record.outcome == RunOutcome::LeaseLost;
    if lost {
        report::ended(server, job, id, &record);
    }
    // The job's future is gone and keep-alive has ended: now, and not before, the lease can go.
    lease.release(server, Some(&run), &ending).await;
    job.here.released.count_up();
    if !lost {
        report::ended(server, job, id, &record);
    }
    record
}

impl Outcome {
    /// Whether the store may have it as started and not finished, and nobody else may know.
    fn may_be_unfinished(&self) -> bool {
        match self {
            Self::Ran(record) => record.outcome == RunOutcome::LeaseLost,
            Self::Skipped(reason) => matches!(
                reason,
                SkipReason::WonTooLate
                    | SkipReason::NotReplicated(_)
                    | SkipReason::StoreUnavailable(_)
                    | SkipReason::StillRunning
                    | SkipReason::Busy
            ),
            Self::NotDue => false,
        }
    }
}
