//! One log line for everything that happens.

use std::time::Duration;

use tracing::{debug, error, info, warn};

use super::event::{EventKind, SkipReason};
use crate::Timestamp;
use crate::events::Taken;
use crate::fleet::Holder;
use crate::history::Skip;
use crate::job::Job;
use crate::server::Server;
use crate::tick::report::COUNTED;

/// Logs with the fields that every line about a job has.
macro_rules! line {
    ($level:ident, $server:expr, $key:expr, $outcome:expr, $($rest:tt)+) => {
        $level!(target: "jobs", key = $key, server = &*$server.id, outcome = $outcome, $($rest)+)
    };
}

/// The same for a run: its tick, if it has one, and its fence.
macro_rules! run {
    ($level:ident, $server:expr, $key:expr, $run:expr, $outcome:expr, $($rest:tt)+) => {
        $level!(
            target: "jobs",
            key = $key, tick = $run.tick.map(tracing::field::display), server = &*$server.id, outcome = $outcome,
            fence = $run.fence, $($rest)+
        )
    };
}

/// One log line for an event.
pub(crate) fn event(server: &Server, key: &str, kind: &EventKind) {
    match kind {
        EventKind::Skipped { tick, reason } => skip(server, key, *tick, reason),
        EventKind::Overdue { tick } => {
            line!(warn, server, key, "overdue", %tick, "[{key}] nobody started this tick within its grace");
        }
        EventKind::Missed { count, first, won } => {
            let more = if *count == COUNTED { "at least " } else { "" };
            line!(
                warn, server, key, "missed", missed = count, tick = %won,
                "[{key}] nobody ran {more}{count} tick(s) since {first}; going on with the newest"
            );
        }
        EventKind::SchedulesDiffer { here, there, server: other } => line!(
            warn,
            server,
            key,
            "schedules_differ",
            here,
            there,
            other,
            "[{key}] is due {here} here, but was {there} on {other}; in a deploy that passes, else one of them is \
             out of date"
        ),
        EventKind::ClockDiffers { ahead_micros } => warn!(
            target: "jobs", server = &*server.id, ahead_micros,
            "this machine's clock differs from the store's by more than a second; ticks follow the store's"
        ),
        EventKind::StoreUnavailable { error } => {
            let store = server.store.location();
            warn!(target: "jobs", store, error, "the store is unavailable; trying on");
        }
        EventKind::StoreBack => {
            let store = server.store.location();
            info!(target: "jobs", store, "the store is back");
        }
        EventKind::ApplicationBlocked => error!(
            target: "jobs", server = &*server.id,
            "the application's runtime polls no tasks; no job is claimed here until it does: look for a deadlock, or for \
             code without an `await` on a current-thread runtime"
        ),
        EventKind::ApplicationBack => {
            info!(target: "jobs", server = &*server.id, "the application's runtime polls tasks again");
        }
        EventKind::LockLost { fence } => line!(
            error,
            server,
            key,
            "lock_lost",
            fence,
            "[{key}] the lock was lost: its lease could not be proved any longer, and its holder was told; look for a \
             store that was away, a process that was suspended, or somebody who broke it"
        ),
        EventKind::LockBroken { held } => {
            let holders: Vec<_> = held.iter().map(|held| held.holder.server.as_deref()).collect();
            let holders: Vec<_> =
                holders.into_iter().map(|holder| holder.unwrap_or("another program")).collect();
            let holders = holders.join(", ");
            line!(
                warn,
                server,
                key,
                "lock_broken",
                holders,
                "[{key}] the lock was broken by hand here; it was held by {holders}"
            );
        }
        // It is told to one listener.
        EventKind::EventsLost(_) => {}
        of_a_run => run(server, key, of_a_run),
    }
}

fn run(server: &Server, key: &str, kind: &EventKind) {
    match kind {
        EventKind::Started(run) if run.tick.is_none() => {
            run!(info, server, key, run, "started", "[{key}] started by hand");
        }
        EventKind::Started(run) => run!(debug, server, key, run, "started", "[{key}] started"),
        EventKind::TakenOver(run) => run!(
            warn,
            server,
            key,
            run,
            "taken_over",
            attempt = run.attempt,
            "[{key}] was left unfinished, and is taken over here: attempt {}",
            run.attempt
        ),
        EventKind::Succeeded { run, took } => {
            run!(info, server, key, run, "succeeded", ?took, "[{key}] succeeded");
        }
        EventKind::RunBlocked(run) => run!(
            error,
            server,
            key,
            run,
            "blocked",
            "[{key}] has not returned to the runtime for longer than its ttl; it keeps its lease, and no other server runs \
             the job: move code that blocks to `tokio::task::spawn_blocking`"
        ),
        EventKind::Failed { run, error } => {
            run!(error, server, key, run, "failed", error, "[{key}] failed: {error}");
        }
        EventKind::Panicked { run, error } => {
            run!(error, server, key, run, "panicked", error, "[{key}] panicked: {error}");
        }
        EventKind::Retrying { run, retry, error, pause } => run!(
            warn,
            server,
            key,
            run,
            "retrying",
            retry,
            ?pause,
            error,
            "[{key}] failed, and is tried again in {:.1} s: {error}",
            pause.as_secs_f32()
        ),
        EventKind::TimedOut(run) => run!(
            error,
            server,
            key,
            run,
            "timed_out",
            "[{key}] took longer than its timeout and was cancelled"
        ),
        EventKind::Cancelled(run) => {
            run!(warn, server, key, run, "cancelled", "[{key}] was cancelled by the shutdown");
        }
        EventKind::LeaseLost(run) => run!(
            error,
            server,
            key,
            run,
            "lease_lost",
            "[{key}] its lease could not be proved any longer, so the run was cancelled; look for a store \
             that was away, or a job that goes without an await for longer than its ttl"
        ),
        EventKind::Overrun { run, usual } => run!(
            warn,
            server,
            key,
            run,
            "overrun",
            ?usual,
            "[{key}] takes more than twice as long as usual ({:.1} s)",
            usual.as_secs_f32()
        ),
        _ => {}
    }
}

/// A server asked before the tick was due by the store's clock.
pub(crate) fn early(server: &Server, job: &Job, tick: Timestamp, wait: Duration) {
    let key = &job.policy.key;
    debug!(target: "jobs", key, server = &*server.id, outcome = "early", %tick, ?wait, "[{key}] not due yet, waiting");
}

fn skip(server: &Server, key: &str, tick: Timestamp, reason: &SkipReason) {
    match reason {
        SkipReason::Held(holder) => {
            let holder = name_holder(server, holder);
            line!(info, server, key, "held", %tick, "[{key}] {holder}, skipping");
        }
        SkipReason::Taken(Taken::Started { server: winner, .. }) if **winner == *server.id => {
            line!(debug, server, key, "taken", %tick, "[{key}] already started here, skipping");
        }
        SkipReason::Taken(Taken::Started { server: winner, .. }) => {
            line!(debug, server, key, "taken", %tick, winner, "[{key}] another server has it, skipping");
        }
        SkipReason::Taken(Taken::Skipped(record)) => {
            let why = match record.reason {
                Skip::Held => "the last run was still going",
                Skip::Paused => "the job is paused",
            };
            line!(debug, server, key, "taken", %tick, "[{key}] skipped by all servers: {why}");
        }
        SkipReason::Superseded(mark) => {
            line!(debug, server, key, "superseded", %tick, %mark, "[{key}] a newer tick was decided, skipping");
        }
        SkipReason::MarkAhead(mark) => line!(
            error, server, key, "ahead", %tick, %mark,
            "[{key}] skipped: a tick in the future of the store's clock was already claimed, so the clock has gone \
             back; the job runs again at {mark}, or at once after `jobs.reset(\"{key}\")`"
        ),
        SkipReason::Unregistered => {
            line!(debug, server, key, "unregistered", %tick, "[{key}] new here and to the store: beginning with the next tick");
        }
        SkipReason::Paused => {
            line!(info, server, key, "paused", %tick, "[{key}] the job is paused, skipping");
        }
        SkipReason::Late(by) => {
            line!(warn, server, key, "late", %tick, ?by, "[{key}] too late to start this tick, skipping");
        }
        SkipReason::Busy => line!(
            warn, server, key, "busy", %tick,
            "[{key}] left to other servers: every place among this server's runs stayed taken"
        ),
        SkipReason::WonTooLate => line!(
            warn, server, key, "not_started", %tick,
            "[{key}] won, but the store's answer came too late to start safely; skipping"
        ),
        SkipReason::NotReplicated(error) => line!(
            warn, server, key, "not_replicated", %tick, error,
            "[{key}] won, but not started while too few replicas knew of it: {error}"
        ),
        SkipReason::StillRunning => line!(
            warn, server, key, "still_running", %tick,
            "[{key}] left to other servers: a run that has lost its lease still goes on here"
        ),
        SkipReason::ApplicationBlocked => line!(
            error, server, key, "application_blocked", %tick,
            "[{key}] won, but given back: the application's runtime did not poll the job in time"
        ),
        SkipReason::StoreUnavailable(error) => line!(
            error, server, key, "store_unavailable", %tick, error,
            "[{key}] skipped: the store did not decide this tick while it could still start: {error}"
        ),
        SkipReason::Stopping => {
            line!(info, server, key, "stopping", %tick, "[{key}] this server is shutting down, skipping");
        }
    }
}

fn name_holder(server: &Server, holder: &Holder) -> String {
    let left = holder.remaining.map_or_else(String::new, |left| {
        let seconds = left.as_secs_f32();
        format!(" (its lease lasts {seconds:.1} s unless extended)")
    });
    match &holder.server {
        Some(holder) if **holder == *server.id => "the last run is still going on this server".to_owned(),
        Some(holder) => format!("the last run is still going on {holder}{left}"),
        None => format!("another program holds the lock{left}"),
    }
}
