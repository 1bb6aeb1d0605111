//! Columns of SQL stores that people read. They must never fail a statement: no decision depends on them.

use serde::Serialize;

use crate::Timestamp;
use crate::store::{Change, JobRecord, KeyState, Lease, names, to_ascii_json};

/// The year 9999, shown as infinity: not every system's calendar goes further.
const END: i64 = 253_370_764_800_000_000;

/// Returns an instant as text: RFC 3339 in UTC, or `infinity`, as a `timestamptz` reads it.
pub(crate) fn time(at: Timestamp) -> String {
    match at.as_micros() {
        ..0 => "-infinity".to_owned(),
        END.. => "infinity".to_owned(),
        _ => at.to_string(),
    }
}

/// Returns a text in ASCII, which a database of any encoding can keep.
pub(crate) fn readable(text: &str) -> String {
    text.chars().map(|c| if matches!(c, ' '..='~' | '\n' | '\t') { c } else { '?' }).collect()
}

/// Returns a text in hexadecimal.
#[cfg(any(feature = "mysql", feature = "sqlite"))]
pub(crate) fn hexadecimal(text: &str) -> String {
    use std::fmt::Write;

    text.bytes().fold(String::with_capacity(2 * text.len()), |mut digits, byte| {
        write!(digits, "{byte:02x}").expect("a string takes every write");
        digits
    })
}

/// Returns the holder of a key, and the instants since and until which it holds it, expired or not. Empty after a release.
pub(crate) fn holder(state: &KeyState) -> [Option<String>; 3] {
    if let (Some(Lease { server, since, until, .. }), false) = (&state.claimant, state.released) {
        return [Some(readable(server)), Some(time(*since)), Some(time(*until))];
    }
    let slots = &state.slots;
    let servers: Vec<String> = slots.iter().map(|slot| readable(&slot.server)).collect();
    [
        (!servers.is_empty()).then(|| names(&servers)),
        slots.iter().map(|slot| slot.since).min().map(time),
        slots.iter().map(|slot| slot.until).max().map(time),
    ]
}

/// Returns the token of the newest lease after a swap that ends the last one: empty if there is none. `None` for every other swap.
pub(crate) fn newest_token(change: &Change) -> Option<String> {
    let state = change.state.as_ref().filter(|_| change.ends_lease.is_some())?;
    Some(token(&state.fenced_lease(0)?.token))
}

/// Returns a token in ASCII. Different tokens stay different.
pub(crate) fn token(token: &str) -> String {
    to_ascii_json(&token).trim_matches('"').to_owned()
}

/// Records to append, and the number of older ones of each kind to keep.
pub(crate) struct AppendedRecords {
    /// Oldest first.
    pub(crate) rows: Vec<RecordRow>,
    pub(crate) runs_kept: i64,
    pub(crate) skips_kept: i64,
}

impl AppendedRecords {
    /// Takes the newest `keep` of each kind: records that would be removed at once are not appended.
    pub(crate) fn of(records: &[JobRecord], keep: usize) -> Self {
        let is_run = |record: &JobRecord| matches!(record, JobRecord::Run(_));
        // A kind that is not appended to is not trimmed.
        let limit = |appended| if appended { i64::try_from(keep).unwrap_or(i64::MAX) } else { i64::MAX };
        let mut runs_kept = limit(records.iter().any(is_run));
        let mut skips_kept = limit(!records.iter().all(is_run));
        let mut rows: Vec<_> = records
            .iter()
            .rev()
            .filter(|record| {
                let left = if is_run(record) { &mut runs_kept } else { &mut skips_kept };
                let fits = *left > 0;
                *left -= i64::from(fits);
                fits
            })
            .map(RecordRow::of)
            .collect();
        rows.reverse();
        Self { rows, runs_kept, skips_kept }
    }
}

pub(crate) const RUN: &str = "run";
pub(crate) const SKIP: &str = "skip";

/// A row of `job_record`.
#[derive(Serialize)]
pub(crate) struct RecordRow {
    pub(crate) kind: &'static str,
    pub(crate) tick: Option<String>,
    pub(crate) server: String,
    pub(crate) started: Option<String>,
    pub(crate) ended: String,
    pub(crate) outcome: String,
    pub(crate) error: Option<String>,
    pub(crate) record: String,
}

impl RecordRow {
    fn of(record: &JobRecord) -> Self {
        match record {
            JobRecord::Run(run) => Self {
                kind: RUN,
                tick: run.tick.map(time),
                server: readable(&run.server),
                started: Some(time(run.started)),
                ended: time(run.ended),
                outcome: run.outcome.as_str().to_owned(),
                error: run.error.as_deref().map(readable),
                record: record.to_json(),
            },
            JobRecord::Skip(skip) => Self {
                kind: SKIP,
                tick: Some(time(skip.tick)),
                server: readable(&skip.server),
                started: None,
                ended: time(skip.at),
                outcome: to_ascii_json(&skip.reason).trim_matches('"').to_owned(),
                error: None,
                record: record.to_json(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::history::{RunOutcome, RunRecord, Skip, SkipRecord};
    use crate::store::{Claim, ClaimPurpose, RunDetails, Trigger};

    fn lease(what: ClaimPurpose, server: &str, since: i64, until: i64) -> Lease {
        let (token, server, ttl) = ("t".into(), server.into(), Duration::from_micros(4));
        let claim = Claim { token, server, ttl, what, remember: 0, details: RunDetails::default() };
        Lease::claimed(&claim, Timestamp::from_micros(since), Timestamp::from_micros(until))
    }

    fn run(fence: i64) -> JobRecord {
        JobRecord::Run(RunRecord {
            tick: None,
            server: "a".to_owned(),
            fence,
            attempt: 1,
            started: Timestamp::from_micros(1),
            ended: Timestamp::from_micros(2),
            outcome: RunOutcome::Failed,
            error: Some("Größe\0".to_owned()),
            failed_tries: Vec::new(),
            log: None,
            progress: None,
            request: None,
            trigger: Trigger::Schedule,
            by: None,
            stopped_by: None,
            app_version: None,
        })
    }

    fn skip() -> JobRecord {
        let at = Timestamp::from_micros(3);
        JobRecord::Skip(SkipRecord::new(at, Skip::Held, "a", at))
    }

    #[test]
    fn newest_records_of_each_kind_are_appended() {
        let appended = AppendedRecords::of(&[run(1), run(2), skip(), run(3)], 2);
        assert_eq!((appended.runs_kept, appended.skips_kept), (0, 1));
        let rows: Vec<serde_json::Value> =
            serde_json::from_str(&to_ascii_json(&appended.rows)).expect("an array");
        let column = |name: &str| rows.iter().map(|row| row[name].clone()).collect::<Vec<_>>();
        assert_eq!(column("kind"), ["run", "skip", "run"]);
        assert_eq!(column("error"), ["Gr??e?".into(), serde_json::Value::Null, "Gr??e?".into()]);
        assert_eq!(column("outcome"), ["failed", "held", "failed"]);
        assert!(
            column("record")[0].as_str().is_some_and(|record| record.contains("\"fence\":2")),
            "{rows:?}"
        );
    }

    #[test]
    fn holder_is_shown_until_the_key_is_released() {
        let held =
            KeyState { claimant: Some(lease(ClaimPurpose::Now, "host-1", 5, 9)), ..KeyState::default() };
        let expected = ["host-1", "1970-01-01T00:00:00.000005Z", "1970-01-01T00:00:00.000009Z"];
        assert_eq!(holder(&held), expected.map(|text| Some(text.to_owned())));
        let released = KeyState { released: true, ..held };
        assert_eq!(holder(&released), [const { None }; 3]);
    }

    #[test]
    fn holders_of_slots_are_shown_together() {
        let slot = |server, since, until| lease(ClaimPurpose::Slot(2), server, since, until);
        let slots = vec![slot("a", 1, 9), slot("b", 2, 8)];
        let [since, until] = [1, 9].map(|at| Some(time(Timestamp::from_micros(at))));
        assert_eq!(
            holder(&KeyState { slots, ..KeyState::default() }),
            [Some("a, b".to_owned()), since, until]
        );
    }

    #[test]
    fn instant_that_no_calendar_has_is_infinite() {
        for (at, shown) in [(i64::MIN, "-infinity"), (-1, "-infinity"), (i64::MAX, "infinity")] {
            assert_eq!(time(Timestamp::from_micros(at)), shown);
        }
    }
}
