//! The reason for what became of a tick, as the rest of a sentence whose subject is the tick.

use std::time::Duration;

use super::reason::{Reason, reason};
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

    pub(super) fn of(&self, fate: TickFate) -> Reason {
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

    fn upcoming(&self) -> Reason {
        let due = format!("is due in {}", span(self.tick.since(self.ticks.now)));
        match &self.ticks.history.pause {
            Some(pause) if pause.is_active(self.tick) => {
                reason![due, ", and will be skipped: the job is ", paused(pause)]
            }
            _ if self.ticks.servers.is_empty() => reason![due, ", but ", self.no_server()],
            _ => due.into(),
        }
    }

    /// What a server that claims it now finds.
    fn due(&self) -> Reason {
        let Ticks { history, foreign_holder, servers, .. } = self.ticks;
        if let Some(pause) = &history.pause {
            return reason!["is due, and will be skipped: the job is ", paused(pause)];
        }
        if let Some(run) = &history.current {
            let whose = run.tick.map_or_else(|| "a manual run".into(), |tick| reason!["the run of ", tick]);
            return reason![
                "is due, and waits or will be skipped: ",
                whose,
                " is in progress on ",
                &run.server,
                " since ",
                run.started
            ];
        }
        if let Some(holder) = foreign_holder {
            let remaining = holder.remaining.map_or_else(
                || "without an expiry".to_owned(),
                |remaining| format!("for another {}", span(remaining)),
            );
            return reason![
                "is due, and waits or will be skipped: another program holds the lock, ",
                remaining
            ];
        }
        if servers.is_empty() {
            return reason!["is due, but ", self.no_server()];
        }
        reason!["is due: a server may start it until ", self.tick + self.ticks.grace]
    }

    fn overdue(&self) -> Reason {
        let servers = match self.ticks.servers.len() {
            0 => return reason!["was not started: ", self.no_server()],
            1 => format!("the one server that has the job, {}", self.ticks.servers[0]),
            count => format!("any of the {count} servers that have the job"),
        };
        reason![
            "was not started by ",
            servers,
            ": at the limit of concurrent runs, without a connection to the store, or with a blocked application; their logs \
             say which (RUST_LOG=jobs=debug)"
        ]
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

    fn running(&self) -> Reason {
        let Some(run) = &self.ticks.history.current else { return "is running".into() };
        let attempt = (run.attempt > 1).then(|| reason![format!(", attempt {}", run.attempt)]);
        let cancelled = run.cancelled_by.as_ref().map(|by| reason!["; ", by, " has asked to cancel it"]);
        let before = Some(self.attempts()).filter(|before| !before.is_empty());
        let before = before.map(|before| reason!["; ", before]);
        reason!["has been running on ", &run.server, " since ", run.started, attempt, cancelled, before]
    }

    fn ran(&self) -> Reason {
        match self.runs {
            [only] => outcome(only),
            _ => self.attempts(),
        }
    }

    /// `attempt 1 crashed …; attempt 2 succeeded …`
    fn attempts(&self) -> Reason {
        let attempt = |(number, run): (usize, &RunRecord)| {
            let separator = if number == 0 { "" } else { "; " };
            reason![format!("{separator}attempt {} ", run.attempt), outcome(run)]
        };
        self.runs.iter().enumerate().map(attempt).collect()
    }

    fn skipped(&self) -> Reason {
        let Some(skip) = self.skip else { return "was skipped".into() };
        match (skip.reason, &skip.pause, &skip.holder) {
            (Skip::Paused, Some(pause), _) => reason!["was skipped because the job was ", paused(pause)],
            (Skip::Paused, None, _) => "was skipped because the job was paused".into(),
            (_, _, Some(holder)) => reason!["was skipped because ", held_by(holder)],
            (_, _, None) => "was skipped because the key was held".into(),
        }
    }

    fn missed(&self) -> Reason {
        let why =
            "was missed: no server was running, the store was unreachable, or every server was too late; ";
        match self.skip {
            Some(skip) => reason![why, &skip.server, " recorded that at ", skip.at],
            None => reason![why, "the next run reports it"],
        }
    }

    fn not_on_record(&self) -> Reason {
        let Ticks { history, .. } = self.ticks;
        if let Some(mark) = self.ticks.mark().filter(|mark| mark.tick == self.tick) {
            let what = if mark.skip.is_some() { "was skipped by " } else { "was started by " };
            return reason![what, &*mark.server, " at ", mark.at, "; its record is gone"];
        }
        if let Some(oldest) = self.ticks.oldest_record().filter(|oldest| self.tick < *oldest) {
            return reason![
                "is not on record: the store keeps the newest runs and skips, here back to ",
                oldest
            ];
        }
        match &history.registered {
            Some(registered) if self.tick <= registered.at => {
                reason!["is not on record: the job was registered, or last resumed, at ", registered.at]
            }
            Some(_) => "is not on record: the store keeps only the newest runs and skips".into(),
            None => "is not on record: no tick of the job was ever claimed".into(),
        }
    }

    fn not_scheduled(&self) -> Reason {
        let Some(schedule) = &self.ticks.schedule else {
            return "is no tick: the job has no schedule, and runs only manually".into();
        };
        let (before, after) = (schedule.newest_at(self.tick), schedule.next_after(self.tick));
        let comma = (before.is_some() && after.is_some()).then(|| reason![", "]);
        let before = before.map(|tick| reason!["the tick before is ", tick]);
        let after = after.map(|tick| reason!["the next one is ", tick]);
        reason![format!("is no tick of the schedule {schedule}: "), before, comma, after]
    }
}

fn outcome(run: &RunRecord) -> Reason {
    let (server, took) = (&run.server, span(run.duration()));
    let late = if run.trigger == Trigger::Missed { "ran late, because it was missed," } else { "ran" };
    let error = run.error.as_deref().map(|error| format!(": {error}")).unwrap_or_default();
    let by = run.stopped_by.as_deref();
    match run.outcome {
        RunOutcome::Succeeded => format!("{late} on {server} and succeeded in {took}").into(),
        RunOutcome::Failed => format!("{late} on {server} and failed after {took}{error}").into(),
        RunOutcome::Panicked => format!("{late} on {server} and panicked after {took}{error}").into(),
        RunOutcome::TimedOut => {
            format!("{late} on {server} and was cancelled by its timeout after {took}{error}").into()
        }
        RunOutcome::Cancelled => {
            let by = by.unwrap_or("the server's shutdown");
            format!("{late} on {server} and was cancelled by {by} after {took}").into()
        }
        RunOutcome::LeaseLost => format!(
            "{late} on {server} and was cancelled after {took}, because the server could no longer prove its lease{error}"
        )
        .into(),
        RunOutcome::Crashed => reason![
            format!("started on {server} at "),
            run.started,
            " and crashed: its lease ended at ",
            run.ended,
            " without a release"
        ],
        RunOutcome::Committed => reason![format!(
            "{late} on {server} and committed its work after {took}; the server did not release the lease, or an error \
             followed{error}"
        )],
        RunOutcome::NotStarted => reason![
            format!("was claimed by {server} at "),
            run.started,
            " and released before the job was called: the application did not poll it in time, or the server was stopping"
        ],
        RunOutcome::Broken => {
            format!("ran on {server}, and {} broke its lock after {took}", by.unwrap_or("an operator")).into()
        }
    }
}

fn held_by(holder: &SkipHolder) -> Reason {
    let since = holder.since.map(|since| reason![", since ", since]);
    match (&holder.server, holder.tick) {
        (Some(server), Some(tick)) => {
            reason!["the run of ", tick, " still held the key on ", server, since]
        }
        (Some(server), None) => reason!["a manual run still held the key on ", server, since],
        (None, _) => reason!["another program held the lock", since],
    }
}

/// `paused by anna since 02:00, until 04:00: the supplier is down`
fn paused(pause: &Pause) -> Reason {
    let until = pause.until.map(|until| reason![", until ", until]);
    let why = pause.reason.as_deref().map(|why| reason![": ", why]);
    reason!["paused by ", &*pause.by, " since ", pause.since, until, why]
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
