//! The events that report a tick.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use singleton_jobs_policy::{Overlap, Schedule};

use crate::Timestamp;
use crate::history::{RunOutcome, RunRecord};
use crate::job::Job;
use crate::observe::event::{EventKind, RunRef, SkipReason};
use crate::observe::hook;
use crate::server::Server;
use crate::store::{Gap, RegisteredSchedule};
use crate::util::lock;

/// Reports the end of a run.
pub(crate) fn ended(server: &Arc<Server>, job: &Job, run: RunRef, record: &RunRecord) {
    let took = record.duration();
    let error = || record.error.clone().unwrap_or_default();
    let kind = match record.outcome {
        RunOutcome::Succeeded => EventKind::Succeeded { run, took },
        RunOutcome::Failed => EventKind::Failed { run, took, error: error() },
        RunOutcome::Panicked => EventKind::Panicked { run, took, error: error() },
        RunOutcome::TimedOut => EventKind::TimedOut { run, took },
        RunOutcome::LeaseLost => EventKind::LeaseLost { run, took },
        _ => EventKind::Cancelled { run, took },
    };
    server.emit(Some(job), kind);
    hook::run_ended(server, job, record);
}

/// Reports that a tick did not run here.
pub(crate) fn skipped(server: &Arc<Server>, job: &Job, tick: Timestamp, reason: SkipReason) {
    let overdue = match &reason {
        // If another server had started it, the store would have answered so.
        SkipReason::Late(_)
        | SkipReason::WonTooLate
        | SkipReason::NotReplicated(_)
        | SkipReason::ApplicationBlocked
        | SkipReason::StoreUnavailable(_) => true,
        SkipReason::Held(_) => job.policy.overlap == Overlap::Queue,
        _ => false,
    };
    server.emit(Some(job), EventKind::Skipped { tick, reason });
    if overdue {
        self::overdue(server, job, tick);
    }
}

/// Reports, once per tick, that it was not started within its grace.
pub(crate) fn overdue(server: &Arc<Server>, job: &Job, tick: Timestamp) {
    if job.activity.overdue.swap(tick.as_micros(), Ordering::SeqCst) != tick.as_micros() {
        server.emit(Some(job), EventKind::Overdue { tick });
        hook::tick_overdue(server, job, tick);
    }
}

/// The number of missed ticks at which counting stops.
pub(crate) const COUNTED: usize = 1000;

/// Reports the ticks in these gaps, which no server ran.
pub(crate) fn missed(server: &Server, job: &Job, gaps: &[Gap]) {
    for Gap { after, before, schedule: then } in gaps {
        let then = then.as_deref().and_then(Schedule::from_text);
        let Some(schedule) = then.as_ref().or(job.policy.schedule.as_ref()) else { continue };
        let ticks = std::iter::successors(schedule.next_after(*after), |tick| schedule.next_after(*tick));
        let mut missed = ticks.take_while(|tick| tick < before).take(COUNTED).peekable();
        if let Some(first) = missed.peek().copied() {
            server.emit(Some(job), EventKind::Missed { count: missed.count(), first, won: *before });
        }
    }
}

/// Reports, once per schedule, that another server has another schedule for the job.
pub(crate) fn other_schedule(server: &Server, job: &Job, other: &RegisteredSchedule) {
    let mut reported = lock(&job.activity.other_schedule);
    if **reported != *other.schedule {
        (*other.schedule).clone_into(&mut reported);
        drop(reported);
        let here = job.policy.schedule.as_ref().map(ToString::to_string).unwrap_or_default();
        let (there, by) = (other.schedule.to_string(), other.server.to_string());
        server.emit(Some(job), EventKind::SchedulesDiffer { here, there, server: by });
    }
}
