//! Which events follow from what became of a tick.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use singleton_jobs_policy::{Overlap, Schedule};

use crate::Timestamp;
use crate::history::{RunOutcome, RunRecord};
use crate::job::Job;
use crate::observe::event::{EventKind, RunRef, SkipReason};
use crate::server::Server;
use crate::store::{Gap, RegisteredSchedule};

/// A run has ended.
pub(crate) fn ended(server: &Server, job: &Job, run: RunRef, record: &RunRecord) {
    let error = || record.error.clone().unwrap_or_default();
    let kind = match record.outcome {
        RunOutcome::Succeeded => EventKind::Succeeded { run, took: record.duration() },
        RunOutcome::Failed => EventKind::Failed { run, error: error() },
        RunOutcome::Panicked => EventKind::Panicked { run, error: error() },
        RunOutcome::TimedOut => EventKind::TimedOut(run),
        RunOutcome::LeaseLost => EventKind::LeaseLost(run),
        _ => EventKind::Cancelled(run),
    };
    server.tell(Some(job), kind);
}

/// A tick did not run here.
pub(crate) fn skipped(server: &Server, job: &Job, tick: Timestamp, reason: SkipReason) {
    let overdue = match &reason {
        // Had anybody started it, the store would have said so.
        SkipReason::Late(_)
        | SkipReason::WonTooLate
        | SkipReason::NotReplicated(_)
        | SkipReason::ApplicationBlocked
        | SkipReason::StoreUnavailable(_) => true,
        SkipReason::Held(_) => job.policy.overlap == Overlap::Queue,
        _ => false,
    };
    server.tell(Some(job), EventKind::Skipped { tick, reason });
    if overdue {
        self::overdue(server, job, tick);
    }
}

/// A tick was not started within its grace; told once, however often that is found.
pub(crate) fn overdue(server: &Server, job: &Job, tick: Timestamp) {
    if job.here.overdue.swap(tick.as_micros(), Ordering::SeqCst) != tick.as_micros() {
        server.tell(Some(job), EventKind::Overdue { tick });
    }
}

/// How many missed ticks are counted.
pub(crate) const COUNTED: usize = 1000;

/// Ticks in these gaps were run by no server.
pub(crate) fn missed(server: &Server, job: &Job, gaps: &[Gap]) {
    for Gap { after, before, schedule: then } in gaps {
        let then = then.as_deref().and_then(Schedule::from_text);
        let Some(schedule) = then.as_ref().or(job.policy.schedule.as_ref()) else { continue };
        let ticks = std::iter::successors(schedule.next_after(*after), |tick| schedule.next_after(*tick));
        let mut missed = ticks.take_while(|tick| tick < before).take(COUNTED).peekable();
        if let Some(first) = missed.peek().copied() {
            server.tell(Some(job), EventKind::Missed { count: missed.count(), first, won: *before });
        }
    }
}

/// Another server follows another schedule; told once for each.
pub(crate) fn other_schedule(server: &Server, job: &Job, other: &RegisteredSchedule) {
    let mut told = job.here.other_schedule.lock().unwrap_or_else(PoisonError::into_inner);
    if **told != *other.schedule {
        (*other.schedule).clone_into(&mut told);
        drop(told);
        let here = job.policy.schedule.as_ref().map(ToString::to_string).unwrap_or_default();
        let (there, by) = (other.schedule.to_string(), other.server.to_string());
        server.tell(Some(job), EventKind::SchedulesDiffer { here, there, server: by });
    }
}
