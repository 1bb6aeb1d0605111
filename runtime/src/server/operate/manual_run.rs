//! Manual runs: on this server, or on another one that has the job.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::add_to_audit;
use crate::fleet::{Action, ActionKind, Holder};
use crate::history::{RunOutcome, RunRecord};
use crate::job::Job;
use crate::lease::{ClaimResult, PendingClaim};
use crate::observe::event::SkipReason;
use crate::server::Server;
use crate::server::error::OperateError;
use crate::store::{
    Claim, ClaimDecision, ClaimPurpose, ClaimReply, Ending, Note, RequestAnswer, RunDetails, StoreError,
    StoreErrorKind,
};
use crate::tick::{StartedRun, TickOutcome};
use crate::util::backoff::Backoff;
use crate::util::random;
use crate::util::token::token;

/// The result of a manual run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[expect(clippy::large_enum_variant, reason = "it is returned once, and a box is harder to match")]
pub enum RunNow {
    /// It ran, here or on another server. The record shows whether it succeeded.
    Ran(RunRecord),
    /// The job's key is held, so the run was not started.
    Held(Holder),
    /// This server was at its [`max_concurrent`](crate::Builder::max_concurrent) limit for 10 s, so the run was not started.
    /// (A job that starts a manual run counts itself.)
    Busy,
    /// This program does not have the job, and no server that has it started the run.
    NoServer,
}

/// How long a free permit, and then the store, is tried.
const TRY_FOR: Duration = Duration::from_secs(10);

/// How long a request stays on the store: servers read requests when they announce themselves.
const REQUEST_FOR: Duration = Duration::from_secs(45);

/// How often the requesting server looks at the state of its request.
const LOOK: Duration = Duration::from_millis(500);

/// Runs the job on this server, now.
pub(crate) async fn run_here(
    server: &Arc<Server>,
    job: &Arc<Job>,
    by: Arc<str>,
) -> Result<RunNow, OperateError> {
    let (noting, action) = (server.clone(), action(server, &job.policy.key, &by));
    // The run does not wait for it.
    server.spawn(async move { add_to_audit(&noting, &action, false).await });
    Ok(claim_and_run(server, job, ClaimPurpose::Now, Some(by)).await?.unwrap_or(RunNow::NoServer))
}

/// Starts the runs that other servers have requested, if this one has the jobs.
pub(crate) fn take_up_all(server: &Arc<Server>, requested: Vec<Note>) {
    for request in requested.into_iter().take_while(|_| !server.no_new_runs.is_raised()) {
        take_up(server, request);
    }
}

fn take_up(server: &Arc<Server>, Note { name: key, text: id }: Note) {
    let Some(job) = server.jobs.get(&key).cloned() else { return };
    let server = server.clone();
    server.clone().spawn(async move {
        match claim_and_run(&server, &job, ClaimPurpose::Requested(id), None).await {
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(target: "jobs", key, %error, "[{key}] failed to start a requested run");
            }
        }
    });
}

/// `None` if the request was taken up by another server.
async fn claim_and_run(
    server: &Arc<Server>,
    job: &Arc<Job>,
    what: ClaimPurpose,
    by: Option<Arc<str>>,
) -> Result<Option<RunNow>, OperateError> {
    let permit = tokio::select! {
        biased;
        () = server.no_new_runs.raised() => return Err(OperateError::ShuttingDown),
        permit = server.permit(Some(server.time.now() + TRY_FOR)) => permit,
    };
    let Some(permit) = permit else { return Ok(Some(RunNow::Busy)) };
    tokio::select! {
        biased;
        () = server.no_new_runs.raised() => return Err(OperateError::ShuttingDown),
        () = server.application_answers() => {}
    }
    let claim = Claim {
        token: token(),
        server: server.id.clone(),
        ttl: job.policy.ttl,
        what,
        remember: server.history_limit,
        details: RunDetails { by, ..server.details_of(job) },
    };
    let mut pending = PendingClaim::new(server, job.run_context(server).key(), job.policy.keep_alive, claim);
    let give_up = Instant::now() + TRY_FOR;
    let mut backoff = Backoff::new();
    // Why a lease that was won is not used yet.
    let mut unused: Option<StoreError> = None;
    loop {
        if job.activity.has_unleased_run() {
            return Ok(Some(held_here(server)));
        }
        let (lease, late) = match pending.ask().await {
            // A run here has lost its lease while the claim was under way.
            Ok(ClaimResult::Won(lease)) if job.activity.has_unleased_run() => {
                lease.release(server, None, &Ending::of(RunOutcome::NotStarted, server.history_limit)).await;
                return Ok(Some(held_here(server)));
            }
            Ok(ClaimResult::Won(lease)) if !server.no_new_runs.is_raised() => {
                return match Box::pin(StartedRun::start(server, job, lease, permit).finish()).await {
                    TickOutcome::Ran(record) => Ok(Some(RunNow::Ran(record))),
                    TickOutcome::Skipped(SkipReason::Stopping) => Err(OperateError::ShuttingDown),
                    TickOutcome::Skipped(_) | TickOutcome::NotDue => Err(NOT_POLLED),
                };
            }
            Ok(ClaimResult::Won(lease)) => (lease, false),
            Ok(ClaimResult::TooLate(lease)) => (lease, true),
            Ok(ClaimResult::Refused(ClaimReply { decision, .. }, _)) => {
                return match decision {
                    ClaimDecision::Held(holder) => Ok(Some(RunNow::Held(holder))),
                    ClaimDecision::NotRequested => Ok(None),
                    // An earlier request had won, and its lease was over before its answer came or could be used.
                    _ => Err(unused.map_or(TOO_LATE, OperateError::Store)),
                };
            }
            Err(error) if Instant::now() < give_up && error.kind().is_retryable() => {
                if error.kind() == StoreErrorKind::NotReplicated {
                    unused = Some(error);
                }
                sleep(backoff.next()).await;
                continue;
            }
            Err(error) => return Err(unused.unwrap_or(error).into()),
        };
        // A caller that tries again after this error must not find the key held by this attempt.
        lease.release(server, None, &Ending::of(RunOutcome::NotStarted, server.history_limit)).await;
        return Err(if late { TOO_LATE } else { OperateError::ShuttingDown });
    }
}

/// The manual run, as an operator's action.
fn action(server: &Server, key: &str, by: &Arc<str>) -> Action {
    Action { at: server.time.now(), by: by.clone(), what: ActionKind::Run, key: Some(key.into()), note: None }
}

fn held_here(server: &Server) -> RunNow {
    RunNow::Held(Holder { server: Some(server.id.to_string()), since: None, remaining: None })
}

/// Requests a run from the servers that have the job, and waits for its record.
pub(crate) async fn run_elsewhere(
    server: &Arc<Server>,
    key: &str,
    by: &Arc<str>,
) -> Result<RunNow, OperateError> {
    let within = Duration::from_secs(5);
    let id = random::uuid().simple().to_string();
    let requests = server.requests(within);
    let counts = requests.request(key, &id, by, REQUEST_FOR).await?;
    add_to_audit(server, &action(server, key, by), true).await;
    loop {
        tokio::select! {
            biased;
            // The run is on another server, and may take hours.
            () = server.shutting_down.raised() => return Err(OperateError::ShuttingDown),
            () = sleep(LOOK) => {}
        }
        let (history, now) = match requests.history(key).await {
            Ok(seen) => seen,
            // The run does not need this server; the store may be reachable again soon.
            Err(error) if error.kind().is_retryable() => continue,
            Err(error) => return Err(error.into()),
        };
        match history.request.filter(|request| request.id == counts.id).map(|request| request.answer) {
            Some(Some(RequestAnswer::Started { .. })) => {
                let id = Some(&counts.id);
                let goes_on = history.current.is_some_and(|run| run.request.as_ref() == id);
                // An attempt that never started left the request to another server.
                let is_its =
                    |run: &RunRecord| run.request.as_ref() == id && run.outcome != RunOutcome::NotStarted;
                let record = history.runs.into_iter().find(is_its);
                match record {
                    Some(record) => return Ok(RunNow::Ran(record)),
                    None if goes_on => {}
                    None => return Err(OperateError::RecordGone { key: key.to_owned() }),
                }
            }
            Some(Some(RequestAnswer::Held { server })) => {
                return Ok(RunNow::Held(Holder { server, since: None, remaining: None }));
            }
            Some(None) if now < counts.until => {}
            _ => return Ok(RunNow::NoServer),
        }
    }
}

const TOO_LATE: OperateError =
    OperateError::TimedOut { reason: "the store's answer came too late to start the run safely" };

const NOT_POLLED: OperateError =
    OperateError::TimedOut { reason: "the application's runtime did not poll the job's function" };
