//! The log: one line for everything that happens.

use std::time::Duration;

use tracing::{debug, error, field, info, warn};

use super::event::{EventKind, SkipReason};
use crate::Timestamp;
use crate::events::Taken;
use crate::fleet::Holder;
use crate::history::Skip;
use crate::job::Job;
use crate::server::Server;
use crate::tick::report::COUNTED;

/// Durations are logged as numbers, so that they can be graphed. Signed, as all numbers here: `tracing-opentelemetry` exports
/// an unsigned one as text.
pub(super) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// Logs a line with the fields of every line about a job.
macro_rules! line {
    ($level:ident, $server:expr, $key:expr, $outcome:expr, $($rest:tt)+) => {
        $level!(target: "jobs", key = $key, server = &*$server.id, outcome = $outcome, $($rest)+)
    };
}

/// Logs a line about a run, with its tick, if it has one, and its fence.
macro_rules! run {
    ($level:ident, $server:expr, $key:expr, $run:expr, $outcome:expr, $($rest:tt)+) => {
        $level!(
            target: "jobs",
            key = $key, tick = $run.tick.map(field::display), server = &*$server.id, outcome = $outcome,
            fence = $run.fence, $($rest)+
        )
    };
}

/// Logs an event.
pub(crate) fn event(server: &Server, key: &str, kind: &EventKind) {
    match kind {
        EventKind::Skipped { tick, reason } => skip(server, key, *tick, reason),
        EventKind::Overdue { tick } => {
            line!(warn, server, key, "overdue", %tick, "[{key}] no server started this tick within its grace");
        }
        EventKind::Missed { count, first, won } => {
            let more = if *count == COUNTED { "at least " } else { "" };
            line!(
                warn, server, key, "missed", missed = count, tick = %won,
                "[{key}] missed {more}{count} tick(s) since {first}: no server ran or skipped them; continuing with the newest"
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
            "[{key}] the schedule is {here} on this server and {there} on {other}; unless a deploy is in progress, \
             update the server that is out of date"
        ),
        EventKind::ClockDiffers { ahead_micros } => warn!(
            target: "jobs", server = &*server.id, ahead_micros,
            "this machine's clock differs from the store's by more than a second; ticks follow the store's clock"
        ),
        EventKind::StoreUnavailable { error } => {
            let store = server.store.location();
            warn!(target: "jobs", store, error, "the store is unavailable; retrying");
        }
        EventKind::StoreBack => {
            let store = server.store.location();
            info!(target: "jobs", store, "the store is available again");
        }
        EventKind::ApplicationBlocked => error!(
            target: "jobs", server = &*server.id,
            "the application's runtime polls no tasks; this server claims no job until it does: check for a deadlock, \
             or for code without an `await` on a current-thread runtime"
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
            "[{key}] the lock was lost: its lease could no longer be proved, and its holder was notified; check for a \
             store that was unreachable, a process that was suspended, or an operator who broke the lock"
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
                "[{key}] an operator broke the lock on this server; it was held by {holders}"
            );
        }
        // It concerns one listener only.
        EventKind::EventsLost(_) => {}
        of_a_run => run(server, key, of_a_run),
    }
}

fn run(server: &Server, key: &str, kind: &EventKind) {
    match kind {
        EventKind::Started(run) if run.tick.is_none() => {
            run!(info, server, key, run, "started", "[{key}] started manually");
        }
        EventKind::Started(run) => run!(debug, server, key, run, "started", "[{key}] started"),
        EventKind::TakenOver(run) => run!(
            warn,
            server,
            key,
            run,
            "taken_over",
            attempt = i64::from(run.attempt),
            "[{key}] took over an unfinished tick: attempt {}",
            run.attempt
        ),
        EventKind::RunBlocked(run) => run!(
            error,
            server,
            key,
            run,
            "blocked",
            "[{key}] has not reached an `await` for longer than its ttl; it keeps its lease, and no other server runs the \
             job: move blocking code to `tokio::task::spawn_blocking`"
        ),
        EventKind::ReturnedAfterTimeout(run) => run!(
            warn,
            server,
            key,
            run,
            "returned_after_timeout",
            "[{key}] could not be cancelled at its timeout, because it did not reach an `await` in time; what it returned is \
             ignored: move blocking code to `tokio::task::spawn_blocking`"
        ),
        EventKind::Retrying { run, retry, error, pause } => run!(
            warn,
            server,
            key,
            run,
            "retrying",
            retry = i64::from(*retry),
            pause_ms = millis(*pause),
            error,
            "[{key}] failed, retrying in {:.1} s: {error}",
            pause.as_secs_f32()
        ),
        EventKind::Overrun { run, usual } => run!(
            warn,
            server,
            key,
            run,
            "overrun",
            usual_ms = millis(*usual),
            "[{key}] takes more than twice as long as usual ({:.1} s)",
            usual.as_secs_f32()
        ),
        of_its_end => ended(server, key, of_its_end),
    }
}

/// Every way in which a run ends: one line, with the run's duration.
fn ended(server: &Server, key: &str, kind: &EventKind) {
    match kind {
        EventKind::Succeeded { run, took } => {
            run!(info, server, key, run, "succeeded", took_ms = millis(*took), "[{key}] succeeded");
        }
        EventKind::Failed { run, took, error } => {
            run!(
                error,
                server,
                key,
                run,
                "failed",
                took_ms = millis(*took),
                error,
                "[{key}] failed: {error}"
            );
        }
        EventKind::Panicked { run, took, error } => {
            run!(
                error,
                server,
                key,
                run,
                "panicked",
                took_ms = millis(*took),
                error,
                "[{key}] panicked: {error}"
            );
        }
        EventKind::TimedOut { run, took } => run!(
            error,
            server,
            key,
            run,
            "timed_out",
            took_ms = millis(*took),
            "[{key}] took longer than its timeout"
        ),
        EventKind::Cancelled { run, took } => run!(
            warn,
            server,
            key,
            run,
            "cancelled",
            took_ms = millis(*took),
            "[{key}] was cancelled by the shutdown or by an operator"
        ),
        EventKind::LeaseLost { run, took } => run!(
            error,
            server,
            key,
            run,
            "lease_lost",
            took_ms = millis(*took),
            "[{key}] was cancelled because its lease could no longer be proved; check for a store that was unreachable, \
             or a job that goes without an `await` for longer than its ttl"
        ),
        _ => {}
    }
}

/// Logs that a tick was claimed before it was due by the store's clock.
pub(crate) fn early(server: &Server, job: &Job, tick: Timestamp, wait: Duration) {
    let key = &job.policy.key;
    line!(debug, server, key, "early", %tick, wait_ms = millis(wait), "[{key}] not due yet, waiting");
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
                Skip::Held => "the previous run was still in progress",
                Skip::Paused => "the job is paused",
                Skip::Missed => "no server claimed it in time",
            };
            line!(debug, server, key, "taken", %tick, "[{key}] skipped by all servers: {why}");
        }
        SkipReason::Superseded(mark) => {
            line!(debug, server, key, "superseded", %tick, %mark, "[{key}] a newer tick was decided already, skipping");
        }
        SkipReason::MarkAhead(mark) => line!(
            error, server, key, "ahead", %tick, %mark,
            "[{key}] skipped: a tick in the future of the store's clock was claimed, so the clock has gone back; the job \
             runs again at {mark}, or at once after `jobs.reset(\"{key}\")`"
        ),
        SkipReason::Unregistered => {
            line!(debug, server, key, "unregistered", %tick, "[{key}] new to this server and to the store: starting with the next tick");
        }
        SkipReason::Paused(pause) => {
            let (by, reason) = (&*pause.by, pause.reason.as_deref().unwrap_or("no reason given"));
            line!(info, server, key, "paused", %tick, by, reason, "[{key}] paused by {by} ({reason}), skipping");
        }
        SkipReason::Late(by) => {
            line!(warn, server, key, "late", %tick, late_by_ms = millis(*by), "[{key}] too late to start this tick, skipping");
        }
        SkipReason::Busy => line!(
            warn, server, key, "busy", %tick,
            "[{key}] left to other servers: every slot for runs on this server stayed taken"
        ),
        SkipReason::WonTooLate => line!(
            warn, server, key, "not_started", %tick,
            "[{key}] won, but the store's answer came too late to start safely, skipping"
        ),
        SkipReason::NotReplicated(error) => line!(
            warn, server, key, "not_replicated", %tick, error,
            "[{key}] won, but too few replicas had the claim while it could still start, skipping: {error}"
        ),
        SkipReason::StillRunning => line!(
            warn, server, key, "still_running", %tick,
            "[{key}] left to other servers: a run that has lost its lease is still in progress on this server"
        ),
        SkipReason::ApplicationBlocked => line!(
            error, server, key, "application_blocked", %tick,
            "[{key}] won, but released: the application's runtime did not poll the job in time"
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
        format!(" (its lease ends in {seconds:.1} s unless extended)")
    });
    match &holder.server {
        Some(holder) if **holder == *server.id => {
            "the previous run is still in progress on this server".to_owned()
        }
        Some(holder) => format!("the previous run is still in progress on {holder}{left}"),
        None => format!("another program holds the lock{left}"),
    }
}
