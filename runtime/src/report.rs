//! One log line for everything that happens to a tick on this server.

use tracing::{debug, error, info, warn};

use crate::Timestamp;
use crate::job::Job;
use crate::server::Server;
use crate::store::{Holder, RunOutcome, Skip, Taken};
use crate::tick::{Skipped, TickOutcome};

/// Logs with the fields that every line about a tick has.
macro_rules! line {
    ($level:ident, $server:expr, $job:expr, $tick:expr, $outcome:expr, $($rest:tt)+) => {
        $level!(
            target: "jobs",
            key = $job.policy.key, tick = %$tick, server = $server.id, outcome = $outcome, $($rest)+
        )
    };
}

pub(crate) fn tick(server: &Server, job: &Job, tick: Timestamp, outcome: &TickOutcome) {
    let key = &job.policy.key;
    match outcome {
        TickOutcome::Ran { fence, ending } => {
            let (word, error) = (ending.outcome.as_str(), ending.error.as_deref().unwrap_or_default());
            match ending.outcome {
                RunOutcome::Succeeded => line!(info, server, job, tick, word, fence, "[{key}] succeeded"),
                RunOutcome::Failed => {
                    line!(error, server, job, tick, word, fence, error, "[{key}] failed: {error}");
                }
                RunOutcome::Panicked => {
                    line!(error, server, job, tick, word, fence, error, "[{key}] panicked: {error}");
                }
                RunOutcome::TimedOut => line!(
                    error,
                    server,
                    job,
                    tick,
                    word,
                    fence,
                    "[{key}] took longer than its timeout and was cancelled"
                ),
                RunOutcome::LeaseLost => line!(
                    error,
                    server,
                    job,
                    tick,
                    word,
                    fence,
                    "[{key}] its lease could not be proved any longer, so the run was cancelled; look for a store \
                     that was away, or a job that goes without an await for longer than its ttl"
                ),
                _ => line!(warn, server, job, tick, word, fence, "[{key}] was cancelled by the shutdown"),
            }
        }
        TickOutcome::Skipped(skipped) => skip(server, job, tick, skipped),
        TickOutcome::NotDue => line!(
            debug,
            server,
            job,
            tick,
            "early",
            "[{key}] not due yet by the store's clock; planning anew"
        ),
        TickOutcome::Unavailable(error) => line!(
            error, server, job, tick, "store_unavailable", %error,
            "[{key}] skipped: the store did not decide this tick while it could still start: {error}"
        ),
    }
}

fn skip(server: &Server, job: &Job, tick: Timestamp, skipped: &Skipped) {
    let key = &job.policy.key;
    match skipped {
        Skipped::Held(holder) => {
            let holder = name_holder(server, holder);
            line!(info, server, job, tick, "held", "[{key}] {holder}, skipping");
        }
        Skipped::Taken(Taken::Started { server: winner, .. }) if *winner == server.id => {
            line!(debug, server, job, tick, "taken", "[{key}] already started here, skipping");
        }
        Skipped::Taken(Taken::Started { server: winner, .. }) => {
            line!(debug, server, job, tick, "taken", winner, "[{key}] another server has it, skipping");
        }
        Skipped::Taken(Taken::Skipped(record)) => {
            let why = match record.reason {
                Skip::Held => "the last run was still going",
                Skip::Paused => "the job is paused",
            };
            line!(debug, server, job, tick, "taken", "[{key}] skipped by all servers: {why}");
        }
        Skipped::Superseded(mark) => {
            line!(debug, server, job, tick, "superseded", %mark, "[{key}] a newer tick was decided, skipping");
        }
        Skipped::Unregistered => {
            line!(debug, server, job, tick, "unregistered", "[{key}] this tick was before the job was known");
        }
        Skipped::Ahead(mark) => line!(
            error, server, job, tick, "ahead", %mark,
            "[{key}] skipped: a tick in the future of the store's clock was already claimed, so the clock has gone \
             back; the job runs again at {mark}, or at once after `jobs.reset(\"{key}\")`"
        ),
        Skipped::Paused => line!(info, server, job, tick, "paused", "[{key}] the job is paused, skipping"),
        Skipped::Late(by) => {
            line!(warn, server, job, tick, "late", ?by, "[{key}] too late to start this tick, skipping");
        }
        Skipped::Busy => line!(
            warn,
            server,
            job,
            tick,
            "busy",
            "[{key}] left to other servers: every place among this server's runs stayed taken"
        ),
        Skipped::WonTooLate => line!(
            warn,
            server,
            job,
            tick,
            "not_started",
            "[{key}] won, but the store's answer came too late to start safely; skipping"
        ),
        Skipped::Stopping => {
            line!(info, server, job, tick, "stopping", "[{key}] this server is shutting down, skipping");
        }
    }
}

fn name_holder(server: &Server, holder: &Holder) -> String {
    let left = holder.remaining.map_or_else(String::new, |left| {
        let seconds = left.as_secs_f32();
        format!(" (its lease lasts {seconds:.1} s unless extended)")
    });
    match &holder.server {
        Some(holder) if *holder == server.id => "the last run is still going on this server".to_owned(),
        Some(holder) => format!("the last run is still going on {holder}{left}"),
        None => format!("another program holds the lock{left}"),
    }
}

/// How many missed ticks are counted before "more than" is said.
const COUNTED: usize = 1000;

/// After a gap: the ticks after `seen`, up to, not including, the one that is claimed.
pub(crate) fn missed(server: &Server, job: &Job, seen: Timestamp, claimed: Timestamp) {
    let Some(schedule) = &job.policy.schedule else { return };
    let ticks = std::iter::successors(schedule.next_after(seen), |tick| schedule.next_after(*tick));
    let mut missed = ticks.take_while(|tick| *tick < claimed).take(COUNTED).peekable();
    let Some(first) = missed.peek().copied() else { return };
    let missed = missed.count();
    let more = if missed == COUNTED { "at least " } else { "" };
    let key = &job.policy.key;
    line!(
        warn,
        server,
        job,
        claimed,
        "missed",
        missed,
        "[{key}] this server was not there for {more}{missed} tick(s) since {first}; going on with the newest"
    );
}
