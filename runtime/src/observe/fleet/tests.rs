//! What became of a tick, and the sentence about it: one test for each reason there is.

use std::sync::Arc;
use std::time::Duration;

use jiff::tz::TimeZone;
use singleton_jobs_policy::jiff;

use super::ticks::{TickFate, Ticks};
use crate::Timestamp;
use crate::fleet::{JobInfo, ServerInfo};
use crate::history::{RunOutcome, RunRecord, Skip, SkipHolder, SkipRecord, Trigger};
use crate::store::{
    Gap, JobRecords, KeyState, Lease, LeaseKind, Look, Pause, RegisteredSchedule, RunDetails, SharedLock,
    TickMark, Version,
};

/// 17 November 2026.
const DAY: i64 = 1_794_873_600;

fn at(hour: i64, minute: i64) -> Timestamp {
    Timestamp::from_micros((DAY + hour * 3600 + minute * 60) * 1_000_000)
}

/// A job that is due at each full hour, asked about at 05:10, with the mark at 04:00.
struct Case {
    state: KeyState,
    records: JobRecords,
    servers: Vec<ServerInfo>,
    lock: Option<SharedLock>,
    now: Timestamp,
}

impl Case {
    fn new() -> Self {
        let mark = TickMark { tick: at(4, 0), skip: None, server: "web-1".into(), at: at(4, 0) };
        let registered = RegisteredSchedule {
            schedule: "0 * * * * UTC".into(),
            at: at(0, 30),
            server: "web-1".into(),
            begun: at(0, 30),
            used: at(4, 0),
            runs_missed_since: None,
        };
        let state = KeyState {
            mark: Some(mark),
            claimable_until: Some(at(4, 1)),
            registered: Some(registered),
            expires: None,
            ..KeyState::default()
        };
        Self {
            state,
            records: JobRecords::default(),
            servers: vec![server("web-1", "import")],
            lock: None,
            now: at(5, 10),
        }
    }

    fn run(mut self, change: impl FnOnce(&mut RunRecord)) -> Self {
        let mut run = run();
        change(&mut run);
        self.records.runs.insert(0, run);
        self
    }

    fn skip(mut self, reason: Skip, change: impl FnOnce(&mut SkipRecord)) -> Self {
        let mut skip = SkipRecord::new(at(3, 0), reason, "web-1", at(3, 0));
        change(&mut skip);
        self.records.skips.insert(0, skip);
        self
    }

    fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    fn ticks(self) -> Ticks {
        let version = Some(Version { at: at(4, 0), nonce: 1 });
        let look = Look { now: self.now, version, fence: 7, state: Arc::new(self.state), lock: self.lock };
        Ticks::new("import", &look, self.records, &self.servers, [])
    }

    /// What became of the tick, and why.
    fn of(self, tick: Timestamp) -> (TickFate, String) {
        let report = self.ticks().at(tick);
        (report.fate, report.reason)
    }
}

fn server(id: &str, key: &str) -> ServerInfo {
    let job = JobInfo { key: key.to_owned(), hash: "1".to_owned() };
    let about = serde_json::json!({
        "id": id, "started": 1, "announced": 2, "version": "1", "jobs": [job], "clock_ahead_micros": 0, "running": [],
    });
    serde_json::from_value(about).expect("a server")
}

fn run() -> RunRecord {
    RunRecord {
        tick: Some(at(3, 0)),
        server: "web-2".to_owned(),
        fence: 5,
        attempt: 1,
        started: at(3, 0),
        ended: at(3, 0) + Duration::from_millis(1500),
        outcome: RunOutcome::Succeeded,
        error: None,
        failed_tries: Vec::new(),
        log: None,
        progress: None,
        request: None,
        trigger: Trigger::Schedule,
        by: None,
        stopped_by: None,
        app_version: None,
    }
}

fn lease(tick: Option<Timestamp>) -> Lease {
    Lease {
        token: "t".into(),
        server: "web-2".into(),
        kind: LeaseKind::Run,
        tick,
        attempt: 1,
        takeovers: 0,
        request: None,
        trigger: Trigger::Schedule,
        details: RunDetails::default(),
        fence: 0,
        since: at(4, 0),
        until: at(5, 30),
        ttl: Duration::from_secs(60),
        progress: None,
        reported: None,
    }
}

fn pause() -> Pause {
    Pause {
        by: "anna".into(),
        reason: Some("supplier down".into()),
        since: at(2, 30),
        until: None,
        all: false,
    }
}

fn says(case: Case, tick: Timestamp, fate: TickFate, reason: &str) {
    assert_eq!(case.of(tick), (fate, reason.to_owned()));
}

#[test]
fn each_outcome_of_a_run_has_its_sentence() {
    let outcomes = [
        (RunOutcome::Succeeded, "ran on web-2 and succeeded in 1.5s"),
        (RunOutcome::Failed, "ran on web-2 and failed after 1.5s: no route"),
        (RunOutcome::Panicked, "ran on web-2 and panicked after 1.5s: no route"),
        (RunOutcome::TimedOut, "ran on web-2 and was cancelled by its timeout after 1.5s: no route"),
        (RunOutcome::Cancelled, "ran on web-2 and was cancelled by the server's shutdown after 1.5s"),
        (
            RunOutcome::LeaseLost,
            "ran on web-2 and was cancelled after 1.5s, because the server could no longer prove its lease: no route",
        ),
        (
            RunOutcome::Crashed,
            "started on web-2 at 03:00 and crashed: its lease ended at 03:00:01 without a release",
        ),
        (
            RunOutcome::NotStarted,
            "was claimed by web-2 at 03:00 and released before the job was called: the application did not poll it in \
             time, or the server was stopping",
        ),
        (RunOutcome::Broken, "ran on web-2, and an operator broke its lock after 1.5s"),
    ];
    for (outcome, sentence) in outcomes {
        let case = Case::new().run(|run| {
            run.outcome = outcome;
            run.error = (outcome != RunOutcome::Succeeded).then(|| "no route".to_owned());
        });
        says(case, at(3, 0), TickFate::Ran(outcome), sentence);
    }
}

#[test]
fn who_stopped_a_run_is_named() {
    for (outcome, sentence) in [
        (RunOutcome::Cancelled, "ran on web-2 and was cancelled by anna after 1.5s"),
        (RunOutcome::Broken, "ran on web-2, and anna broke its lock after 1.5s"),
    ] {
        let case = Case::new().run(|run| (run.outcome, run.stopped_by) = (outcome, Some("anna".to_owned())));
        says(case, at(3, 0), TickFate::Ran(outcome), sentence);
    }
}

#[test]
fn missed_tick_that_ran_late_and_each_attempt_are_named() {
    let late = Case::new().run(|run| run.trigger = Trigger::Missed);
    let sentence = "ran late, because it was missed, on web-2 and succeeded in 1.5s";
    says(late, at(3, 0), TickFate::Ran(RunOutcome::Succeeded), sentence);
    let taken_over = Case::new()
        .run(|run| run.outcome = RunOutcome::Crashed)
        .run(|run| (run.attempt, run.trigger, run.server) = (2, Trigger::Takeover, "web-3".to_owned()));
    let sentence = "attempt 1 started on web-2 at 03:00 and crashed: its lease ended at 03:00:01 without a release; attempt 2 \
                    ran on web-3 and succeeded in 1.5s";
    says(taken_over, at(3, 0), TickFate::Ran(RunOutcome::Succeeded), sentence);
}

#[test]
fn skip_names_the_run_the_manual_run_or_the_program_in_the_way() {
    let holder =
        |server: Option<&str>, tick| SkipHolder { server: server.map(str::to_owned), since: None, tick };
    for (holder, sentence) in [
        (
            Some(holder(Some("web-3"), Some(at(2, 0)))),
            "was skipped because the run of 02:00 still held the key on web-3",
        ),
        (Some(holder(Some("web-3"), None)), "was skipped because a manual run still held the key on web-3"),
        (Some(holder(None, None)), "was skipped because another program held the lock"),
        (None, "was skipped because the key was held"),
    ] {
        says(
            Case::new().skip(Skip::Held, |skip| skip.holder = holder),
            at(3, 0),
            TickFate::Skipped,
            sentence,
        );
    }
}

#[test]
fn skip_of_a_pause_names_who_paused_and_why() {
    let paused = Case::new().skip(Skip::Paused, |skip| skip.pause = Some(pause()));
    let sentence = "was skipped because the job was paused by anna since 02:30: supplier down";
    says(paused, at(3, 0), TickFate::Skipped, sentence);
    says(
        Case::new().skip(Skip::Paused, |_| {}),
        at(3, 0),
        TickFate::Skipped,
        "was skipped because the job was paused",
    );
}

#[test]
fn missed_ticks_share_one_record_and_unreported_ones_are_missed_too() {
    let gap = Gap { after: at(1, 0), before: at(4, 0), schedule: None };
    let why = "was missed: no server was running, the store was unreachable, or every server was too late";
    let recorded = || {
        Case::new().skip(Skip::Missed, |skip| {
            (skip.tick, skip.at, skip.missed) = (at(2, 0), at(4, 0), Some(gap.clone()));
        })
    };
    for tick in [at(2, 0), at(3, 0)] {
        says(recorded(), tick, TickFate::Missed, &format!("{why}; web-1 recorded that at 04:00"));
    }
    assert_eq!(recorded().of(at(1, 0)).0, TickFate::NotOnRecord, "the gap begins after it");
    let unreported = Case::new().with(|case| case.state.missed.push(gap.clone()));
    says(unreported, at(3, 0), TickFate::Missed, &format!("{why}; the next run reports it"));
}

#[test]
fn running_tick_names_its_server_and_who_cancels_it() {
    let case = Case::new().with(|case| {
        let mut lease = lease(Some(at(4, 0)));
        lease.attempt = 2;
        case.state.claimant = Some(lease);
        case.state.cancelled_by = Some("anna".into());
    });
    let sentence = "has been running on web-2 since 04:00, attempt 2; anna has asked to cancel it";
    says(case, at(4, 0), TickFate::Running, sentence);
}

#[test]
fn due_tick_names_what_is_in_the_way() {
    let due = || Case::new().with(|case| case.now = at(5, 0) + Duration::from_secs(10));
    says(due(), at(5, 0), TickFate::Due, "is due: a server may start it until 05:01");
    let paused = due().with(|case| case.state.pause = Some(pause()));
    let sentence = "is due, and will be skipped: the job is paused by anna since 02:30: supplier down";
    says(paused, at(5, 0), TickFate::Due, sentence);
    let held = due().with(|case| case.state.claimant = Some(lease(Some(at(4, 0)))));
    let sentence =
        "is due, and waits or will be skipped: the run of 04:00 is in progress on web-2 since 04:00";
    says(held, at(5, 0), TickFate::Due, sentence);
    let manual = due().with(|case| case.state.claimant = Some(lease(None)));
    let sentence = "is due, and waits or will be skipped: a manual run is in progress on web-2 since 04:00";
    says(manual, at(5, 0), TickFate::Due, sentence);
    let foreign = |until| due().with(|case| case.lock = Some(SharedLock { token: "x".into(), until }));
    let sentence = "is due, and waits or will be skipped: another program holds the lock, for another 20.0s";
    says(foreign(Some(at(5, 0) + Duration::from_secs(30))), at(5, 0), TickFate::Due, sentence);
    let sentence = "is due, and waits or will be skipped: another program holds the lock, without an expiry";
    says(foreign(None), at(5, 0), TickFate::Due, sentence);
    let alone = due().with(|case| case.servers.clear());
    says(alone, at(5, 0), TickFate::Due, "is due, but no server is alive; start one");
}

#[test]
fn overdue_tick_names_the_servers_that_could_have_run_it() {
    let why = "at the limit of concurrent runs, without a connection to the store, or with a blocked application; their \
               logs say which (RUST_LOG=jobs=debug)";
    let one = format!("was not started by the one server that has the job, web-1: {why}");
    says(Case::new(), at(5, 0), TickFate::Overdue, &one);
    let two = Case::new().with(|case| case.servers.push(server("web-2", "import")));
    let several = format!("was not started by any of the 2 servers that have the job: {why}");
    says(two, at(5, 0), TickFate::Overdue, &several);
    let without = |servers: Vec<ServerInfo>| Case::new().with(|case| case.servers = servers);
    says(without(vec![]), at(5, 0), TickFate::Overdue, "was not started: no server is alive; start one");
    let other = vec![server("web-1", "other")];
    let sentence =
        "was not started: the only server alive does not have this job; deploy it, or enable it there";
    says(without(other), at(5, 0), TickFate::Overdue, sentence);
    let others = vec![server("web-1", "other"), server("web-2", "other")];
    let sentence = "was not started: none of the 2 servers alive has this job; deploy it, or enable it there";
    says(without(others), at(5, 0), TickFate::Overdue, sentence);
}

#[test]
fn upcoming_tick_says_when_and_whether_it_will_be_skipped() {
    says(Case::new(), at(6, 0), TickFate::Upcoming, "is due in 50m 0s");
    let paused = |until| Case::new().with(|case| case.state.pause = Some(Pause { until, ..pause() }));
    let sentence =
        "is due in 50m 0s, and will be skipped: the job is paused by anna since 02:30: supplier down";
    says(paused(None), at(6, 0), TickFate::Upcoming, sentence);
    says(paused(Some(at(5, 30))), at(6, 0), TickFate::Upcoming, "is due in 50m 0s");
}

#[test]
fn tick_without_a_record_says_why_there_is_none() {
    says(Case::new(), at(4, 0), TickFate::NotOnRecord, "was started by web-1 at 04:00; its record is gone");
    let skipped = Case::new().with(|case| case.state.mark.as_mut().unwrap().skip = Some(Skip::Held));
    says(skipped, at(4, 0), TickFate::NotOnRecord, "was skipped by web-1 at 04:00; its record is gone");
    let sentence = "is not on record: the store keeps only the newest runs and skips";
    says(Case::new(), at(2, 0), TickFate::NotOnRecord, sentence);
    let sentence = "is not on record: the job was registered or last resumed at 00:30, and the store keeps only the newest \
                    runs and skips";
    says(Case::new(), at(0, 0), TickFate::NotOnRecord, sentence);
}

#[test]
fn instant_that_is_no_tick_names_those_around_it() {
    let sentence =
        "is no tick of the schedule 0 * * * * UTC: the tick before is 03:00, the next one is 04:00";
    says(Case::new(), at(3, 7), TickFate::NotScheduled, sentence);
    let unscheduled = Case::new().with(|case| case.state.registered = None);
    let sentence = "is no tick: the job has no schedule, and runs only manually";
    says(unscheduled, at(3, 0), TickFate::NotScheduled, sentence);
}

#[test]
fn newest_ticks_come_from_the_schedule_and_from_the_records() {
    // The schedule has changed: 03:30 was a tick of the old one.
    let ticks = Case::new().run(|run| run.tick = Some(at(3, 30))).ticks();
    let newest: Vec<_> = ticks.newest(10).into_iter().map(|report| report.tick).collect();
    assert_eq!(newest, [at(5, 0), at(4, 0), at(3, 30), at(3, 0), at(2, 0), at(1, 0)], "none before the job");
    assert_eq!(ticks.newest(2).len(), 2);
    assert_eq!(ticks.next().map(|report| report.tick), Some(at(6, 0)));
}

#[test]
fn times_are_shown_in_the_zone_and_with_a_date_that_differs() {
    let case = Case::new().skip(Skip::Paused, |skip| {
        skip.pause = Some(Pause { since: at(-26, 0), until: Some(at(5, 30)), ..pause() });
    });
    let ticks = case.ticks().in_zone(TimeZone::get("Europe/Berlin").unwrap());
    let sentence =
        "was skipped because the job was paused by anna since 2026-11-15 23:00, until 06:30: supplier down";
    assert_eq!(ticks.at(at(3, 0)).reason, sentence);
}
