//! The reason for what became of a tick, as the rest of a sentence whose subject is the tick.

use std::time::Duration;

use singleton_jobs_policy::jiff;

use super::ticks::{TickFate, Ticks};
use crate::Timestamp;
use crate::history::{RunOutcome, RunRecord, Skip, SkipHolder, SkipRecord, Trigger};
use crate::store::Pause;

pub(super) struct Sentence<'a> {
    ticks: &'a Ticks,
    tick: Timestamp,
    runs: &'a [RunRecord],
    skip: Option<&'a SkipRecord>,
}

impl<'a> Sentence<'a> {
    pub(super) fn new(
        ticks: &'a Ticks,
        tick: Timestamp,
        runs: &'a [RunRecord],
        skip: Option<&'a SkipRecord>,
    ) -> Self {
        Self { ticks, tick, runs, skip }
    }

    pub(super) fn of(&self, fate: TickFate) -> String {
        match fate {
            TickFate::Upcoming => self.upcoming(),
            TickFate::Due => self.due(),
            TickFate::Overdue => self.overdue(),
            TickFate::Running => self.running(),
            TickFate::Ran(_) => self.ran(),
            TickFate::Skipped => self.skipped(),
            TickFate::Missed => self.missed(),
            TickFate::NotOnRecord => self.not_on_record(),
            TickFate::NotScheduled => self.not_scheduled(),
        }
    }

    fn upcoming(&self) -> String {
        let due = format!("is due in {}", span(self.tick.since(self.ticks.now)));
        match &self.ticks.history.pause {
            Some(pause) if pause.is_active(self.tick) => {
                format!("{due}, and will be skipped: the job is {}", self.pause(pause))
            }
            _ if self.ticks.servers.is_empty() => format!("{due}, but {}", self.no_server()),
            _ => due,
        }
    }

    /// What a server that claims it now finds.
    fn due(&self) -> String {
        let Ticks { history, foreign_holder, servers, .. } = self.ticks;
        if let Some(pause) = &history.pause {
            return format!("is due, and will be skipped: the job is {}", self.pause(pause));
        }
        if let Some(run) = &history.current {
            let whose = run
                .tick
                .map_or_else(|| "a manual run".to_owned(), |tick| format!("the run of {}", self.time(tick)));
            return format!(
                "is due, and waits or will be skipped: {whose} is in progress on {} since {}",
                run.server,
                self.time(run.started)
            );
        }
        if let Some(holder) = foreign_holder {
            let remaining = holder.remaining.map_or_else(
                || "without an expiry".to_owned(),
                |remaining| format!("for another {}", span(remaining)),
            );
            return format!(
                "is due, and waits or will be skipped: another program holds the lock, {remaining}"
            );
        }
        if servers.is_empty() {
            return format!("is due, but {}", self.no_server());
        }
        format!("is due: a server may start it until {}", self.time(self.tick + self.ticks.grace))
    }

    fn overdue(&self) -> String {
        let servers = match self.ticks.servers.len() {
            0 => return format!("was not started: {}", self.no_server()),
            1 => format!("the one server that has the job, {}", self.ticks.servers[0]),
            count => format!("any of the {count} servers that have the job"),
        };
        format!(
            "was not started by {servers}: at the limit of concurrent runs, without a connection to the store, or with a \
             blocked application; their logs say which (RUST_LOG=jobs=debug)"
        )
    }

    fn no_server(&self) -> String {
        match self.ticks.alive {
            0 => "no server is alive; start one".to_owned(),
            1 => "the only server alive does not have this job; deploy it, or enable it there".to_owned(),
            alive => {
                format!("none of the {alive} servers alive has this job; deploy it, or enable it there")
            }
        }
    }

    fn running(&self) -> String {
        let Some(run) = &self.ticks.history.current else { return "is running".to_owned() };
        let attempt = if run.attempt > 1 { format!(", attempt {}", run.attempt) } else { String::new() };
        let cancelled = optional(run.cancelled_by.as_ref(), |by| format!("; {by} has asked to cancel it"));
        let (server, since) = (&run.server, self.time(run.started));
        let text = format!("has been running on {server} since {since}{attempt}{cancelled}");
        match self.attempts().as_str() {
            "" => text,
            before => format!("{text}; {before}"),
        }
    }

    fn ran(&self) -> String {
        match self.runs {
            [only] => self.outcome(only),
            _ => self.attempts(),
        }
    }

    /// `attempt 1 crashed …; attempt 2 succeeded …`
    fn attempts(&self) -> String {
        let attempts = self.runs.iter().map(|run| format!("attempt {} {}", run.attempt, self.outcome(run)));
        attempts.collect::<Vec<_>>().join("; ")
    }

    fn outcome(&self, run: &RunRecord) -> String {
        let (server, took) = (&run.server, span(run.duration()));
        let late = if run.trigger == Trigger::Missed { "ran late, because it was missed," } else { "ran" };
        let error = optional(run.error.as_deref(), |error| format!(": {error}"));
        let by = run.stopped_by.as_deref();
        match run.outcome {
            RunOutcome::Succeeded => format!("{late} on {server} and succeeded in {took}"),
            RunOutcome::Failed => format!("{late} on {server} and failed after {took}{error}"),
            RunOutcome::Panicked => format!("{late} on {server} and panicked after {took}{error}"),
            RunOutcome::TimedOut => {
                format!("{late} on {server} and was cancelled by its timeout after {took}{error}")
            }
            RunOutcome::Cancelled => match by {
                Some(by) => format!("{late} on {server} and was cancelled by {by} after {took}"),
                None => format!("{late} on {server} and was cancelled by the server's shutdown after {took}"),
            },
            RunOutcome::LeaseLost => format!(
                "{late} on {server} and was cancelled after {took}, because the server could no longer prove its lease{error}"
            ),
            RunOutcome::Crashed => format!(
                "started on {server} at {} and crashed: its lease ended at {} without a release",
                self.time(run.started),
                self.time(run.ended)
            ),
            RunOutcome::Committed => format!(
                "{late} on {server} and committed its work after {took}; the server did not release the lease, or an error followed{error}"
            ),
            RunOutcome::NotStarted => format!(
                "was claimed by {server} at {} and released before the job was called: the application did not poll it in \
                 time, or the server was stopping",
                self.time(run.started)
            ),
            RunOutcome::Broken => {
                format!("ran on {server}, and {} broke its lock after {took}", by.unwrap_or("an operator"))
            }
        }
    }

    fn skipped(&self) -> String {
        let Some(skip) = self.skip else { return "was skipped".to_owned() };
        match (skip.reason, &skip.pause, &skip.holder) {
            (Skip::Paused, Some(pause), _) => {
                format!("was skipped because the job was {}", self.pause(pause))
            }
            (Skip::Paused, None, _) => "was skipped because the job was paused".to_owned(),
            (_, _, Some(holder)) => format!("was skipped because {}", self.holder(holder)),
            (_, _, None) => "was skipped because the key was held".to_owned(),
        }
    }

    fn holder(&self, holder: &SkipHolder) -> String {
        let since = optional(holder.since, |since| format!(", since {}", self.time(since)));
        match (&holder.server, holder.tick) {
            (Some(server), Some(tick)) => {
                format!("the run of {} still held the key on {server}{since}", self.time(tick))
            }
            (Some(server), None) => format!("a manual run still held the key on {server}{since}"),
            (None, _) => format!("another program held the lock{since}"),
        }
    }

    /// `paused by anna since 02:00, until 04:00: the supplier is down`
    fn pause(&self, pause: &Pause) -> String {
        let until = optional(pause.until, |until| format!(", until {}", self.time(until)));
        let reason = optional(pause.reason.as_deref(), |reason| format!(": {reason}"));
        format!("paused by {} since {}{until}{reason}", pause.by, self.time(pause.since))
    }

    fn missed(&self) -> String {
        let why = "no server was running, the store was unreachable, or every server was too late";
        match self.skip {
            Some(skip) => {
                format!("was missed: {why}; {} recorded that at {}", skip.server, self.time(skip.at))
            }
            None => format!("was missed: {why}; the next run reports it"),
        }
    }

    fn not_on_record(&self) -> String {
        let Ticks { history, .. } = self.ticks;
        if let Some(mark) = self.ticks.mark().filter(|mark| mark.tick == self.tick) {
            let what = if mark.skip.is_some() { "skipped" } else { "started" };
            return format!("was {what} by {} at {}; its record is gone", mark.server, self.time(mark.at));
        }
        if let Some(oldest) = self.ticks.oldest_record().filter(|oldest| self.tick < *oldest) {
            return format!(
                "is not on record: the store keeps the newest runs and skips, here back to {}",
                self.time(oldest)
            );
        }
        match &history.registered {
            Some(registered) if self.tick <= registered.at => format!(
                "is not on record: the job was registered, or last resumed, at {}",
                self.time(registered.at)
            ),
            Some(_) => "is not on record: the store keeps only the newest runs and skips".to_owned(),
            None => "is not on record: no tick of the job was ever claimed".to_owned(),
        }
    }

    fn not_scheduled(&self) -> String {
        let Some(schedule) = &self.ticks.schedule else {
            return "is no tick: the job has no schedule, and runs only manually".to_owned();
        };
        let before =
            schedule.newest_at(self.tick).map(|tick| format!("the tick before is {}", self.time(tick)));
        let after = schedule.next_after(self.tick).map(|tick| format!("the next one is {}", self.time(tick)));
        let around: Vec<_> = before.into_iter().chain(after).collect();
        format!("is no tick of the schedule {schedule}: {}", around.join(", "))
    }

    /// The time of day, with the date if it is another one than the tick's.
    fn time(&self, instant: Timestamp) -> String {
        let zone = &self.ticks.zone;
        let zoned =
            |instant: Timestamp| jiff::Timestamp::try_from(instant).ok().map(|at| at.to_zoned(zone.clone()));
        let (Some(at), Some(tick)) = (zoned(instant), zoned(self.tick)) else { return instant.to_string() };
        let date = if at.date() == tick.date() { "" } else { "%Y-%m-%d " };
        let time = if at.second() == 0 { "%H:%M" } else { "%H:%M:%S" };
        at.strftime(&format!("{date}{time}")).to_string()
    }
}

/// A part of a sentence that is left out if nothing is known.
fn optional<T>(value: Option<T>, part: impl FnOnce(T) -> String) -> String {
    value.map(part).unwrap_or_default()
}

/// A duration for people: `1h 2m`, `3.25s`, `40ms`.
pub(crate) fn span(duration: Duration) -> String {
    match duration.as_secs() {
        0 if duration < Duration::from_millis(1) => format!("{}µs", duration.as_micros()),
        0 => format!("{}ms", duration.as_millis()),
        1..60 => format!("{:.1}s", duration.as_secs_f64()),
        seconds @ 60..3600 => format!("{}m {}s", seconds / 60, seconds % 60),
        seconds @ 3600..86400 => format!("{}h {}m", seconds / 3600, seconds % 3600 / 60),
        seconds => format!("{}d {}h", seconds / 86400, seconds % 86400 / 3600),
    }
}
