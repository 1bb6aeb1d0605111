//! Runs that no schedule asked for: here, or on a server that has the job.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use uuid::Uuid;

use super::Server;
use crate::fleet::Holder;
use crate::history::{RunOutcome, RunRecord};
use crate::job::Job;
use crate::lease::{Asked, PendingClaim};
use crate::store::{
    Claim, ClaimAnswer, ClaimPurpose, ClaimReply, Ending, Note, RequestAnswer, StoreError, StoreErrorKind,
    WonClaim,
};
use crate::tick::claim::Win;
use crate::tick::{Outcome, run_under_lease};
use crate::util::backoff::Backoff;
use crate::util::token::token;

/// What became of a run by hand.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunNow {
    /// It ran, here or on another server, and this is its record: whether it succeeded is in there.
    Ran(RunRecord),
    /// Somebody holds the job's key, so it was not started.
    Held(Holder),
    /// Every place among this server's runs stayed taken for 10 s, so it was not started. (A job that runs another one
    /// by hand keeps its own place meanwhile.)
    Busy,
    /// This program does not have the job, and no server that has it came forward.
    NoServer,
}

/// How long a place among the runs, and then the store, is tried.
const TRY_FOR: Duration = Duration::from_secs(10);

/// Servers hear of a request when they announce themselves.
const REQUEST_FOR: Duration = Duration::from_secs(45);

/// How often a requester looks what became of its request.
const LOOK: Duration = Duration::from_millis(500);

/// Runs the job on this server, now.
pub(crate) async fn run_here(server: &Arc<Server>, job: &Arc<Job>) -> Result<RunNow, StoreError> {
    Ok(claim_and_run(server, job, ClaimPurpose::Now).await?.unwrap_or(RunNow::NoServer))
}

/// Another server asked for a run of a job that this one has.
pub(crate) fn take_up(server: &Arc<Server>, Note { name: key, text: id }: Note) {
    let Some(job) = server.jobs.get(&key).cloned() else { return };
    let server = server.clone();
    server.clone().spawn(async move {
        match claim_and_run(&server, &job, ClaimPurpose::Requested(id)).await {
            Ok(_) => {}
            Err(error) => tracing::warn!(target: "jobs", key, %error, "[{key}] a run that was asked for was not started"),
        }
    });
}

/// `None` if the request was taken up by another server.
async fn claim_and_run(
    server: &Arc<Server>,
    job: &Arc<Job>,
    what: ClaimPurpose,
) -> Result<Option<RunNow>, StoreError> {
    let slot = tokio::select! {
        slot = server.slot(Some(server.time.now().plus(TRY_FOR))) => slot,
        () = server.stop.raised() => return Err(stopping(server)),
    };
    let Some(slot) = slot else { return Ok(Some(RunNow::Busy)) };
    tokio::select! {
        () = server.application_answers() => {}
        () = server.stop.raised() => return Err(stopping(server)),
    }
    let claim = Claim {
        token: token(),
        server: server.id.clone(),
        ttl: job.policy.ttl,
        what,
        remember: server.remember,
    };
    let mut pending = PendingClaim::new(server, job.home(server).key(), job.policy.keep_alive, claim);
    let give_up = Instant::now() + TRY_FOR;
    let mut backoff = Backoff::new();
    // Why a lease that was won is not used yet.
    let mut unused: Option<StoreError> = None;
    loop {
        if job.here.has_astray_run() {
            return Ok(Some(held_here(server)));
        }
        let (lease, late) = match pending.ask().await {
            // A run here has lost its lease while the claim was under way.
            Ok(Asked::Won(lease, _)) if job.here.has_astray_run() => {
                lease.release(server, None, &Ending::of(RunOutcome::NotStarted, server.remember)).await;
                return Ok(Some(held_here(server)));
            }
            Ok(Asked::Won(lease, WonClaim { usual, .. })) if !server.stop.is_raised() => {
                let win = Win { lease, slot, missed: Vec::new(), usual };
                return match run_under_lease(server, job, win).await {
                    Outcome::Ran(record) => Ok(Some(RunNow::Ran(record))),
                    Outcome::Skipped(_) | Outcome::NotDue => Err(not_polled(server)),
                };
            }
            Ok(Asked::Won(lease, _)) => (lease, false),
            Ok(Asked::TooLate(lease)) => (lease, true),
            Ok(Asked::Refused(ClaimAnswer { decision, .. }, _)) => {
                return match decision {
                    ClaimReply::Held(holder) => Ok(Some(RunNow::Held(holder))),
                    ClaimReply::NotRequested => Ok(None),
                    // An earlier request had won, and its lease was over before its answer came or could be used.
                    _ => Err(unused.unwrap_or_else(|| too_late(server))),
                };
            }
            Err(error) if Instant::now() < give_up && error.kind().is_retryable() => {
                if error.kind() == StoreErrorKind::NotReplicated {
                    unused = Some(error);
                }
                sleep(backoff.next()).await;
                continue;
            }
            Err(error) => return Err(unused.unwrap_or(error)),
        };
        // A caller that asks again after this error must not find the key held by itself.
        lease.release(server, None, &Ending::of(RunOutcome::NotStarted, server.remember)).await;
        return Err(if late { too_late(server) } else { stopping(server) });
    }
}

fn held_here(server: &Server) -> RunNow {
    RunNow::Held(Holder { server: Some(server.id.to_string()), since: None, remaining: None })
}

/// Asks the servers that have the job, and waits for the record of the run.
pub(crate) async fn run_elsewhere(server: &Arc<Server>, key: &str) -> Result<RunNow, StoreError> {
    let within = Duration::from_secs(5);
    let id = Uuid::new_v4().simple().to_string();
    let requests = server.requests(within);
    let counts = requests.request(key, &id, &server.id, REQUEST_FOR).await?;
    loop {
        tokio::select! {
            () = sleep(LOOK) => {}
            // The run is another server's: it may go on for hours.
            () = server.stop.raised() => return Err(stopping(server)),
        }
        let (history, now) = match requests.history(key).await {
            Ok(seen) => seen,
            // The run goes on without us; a store that is away comes back.
            Err(error) if error.kind().is_retryable() => continue,
            Err(error) => return Err(error),
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
                    None => return Err(error(server, "its record is gone")),
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

fn stopping(server: &Server) -> StoreError {
    error(server, "this server is shutting down")
}

fn too_late(server: &Server) -> StoreError {
    error(server, "its answer came too late to start the run safely; ask again")
}

fn not_polled(server: &Server) -> StoreError {
    error(server, "the application's runtime did not poll the job in time")
}

fn error(server: &Server, why: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Unreachable, "run_now", server.store.location(), why)
}
