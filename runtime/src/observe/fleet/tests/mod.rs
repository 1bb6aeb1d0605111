//! What became of a tick, and the sentence about it: one test for each reason there is; the timeline and the load map.

mod decided;
mod load;
mod timeline;
mod undecided;

use std::sync::Arc;
use std::time::Duration;

use super::overview::{JobOverview, Overview};
use super::ticks::{TickFate, Ticks};
use crate::Timestamp;
use crate::fleet::{JobInfo, ServerInfo};
use crate::history::{RunOutcome, RunRecord, Skip, SkipHolder, SkipRecord, Stats, Trigger};
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
        let look = Look {
            now: self.now,
            version,
            fence: 7,
            state: Arc::new(self.state),
            lock: self.lock,
            finished: None,
        };
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

/// A job on `web-1` without a schedule and without runs.
fn job(key: &str) -> JobOverview {
    JobOverview {
        key: key.to_owned(),
        description: String::new(),
        place: None,
        arguments: [].into(),
        schedule: None,
        schedule_in_words: None,
        next: None,
        next_local: None,
        current: None,
        runs: Vec::new(),
        skips: Vec::new(),
        stats: Stats::default(),
        pause: None,
        overdue: None,
        foreign_lock: None,
        servers: vec!["web-1".to_owned()],
        variants: Vec::new(),
    }
}

/// These jobs at 05:10, and `web-1`.
fn overview(jobs: impl IntoIterator<Item = JobOverview>) -> Overview {
    Overview {
        at: at(5, 10),
        jobs: jobs.into_iter().collect(),
        servers: vec![server("web-1", "import")],
        lost_servers: Vec::new(),
        locks: Vec::new(),
        done: Vec::new(),
        pause: None,
        actions: Vec::new(),
    }
}

fn says(case: Case, tick: Timestamp, fate: TickFate, reason: &str) {
    assert_eq!(case.of(tick), (fate, reason.to_owned()));
}
