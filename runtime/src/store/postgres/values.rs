//! Columns that a person can read. They must never fail a statement: nothing is decided by them.

use std::time::SystemTime;

use tokio_postgres::types;

use super::super::{Claimant, JobRecord, State, names, to_ascii_json};
use crate::Timestamp;

/// An instant as a `timestamptz`.
pub(super) type Time = types::Timestamp<SystemTime>;

/// The year 9999. Shown as infinity: not every system's clock goes further.
const END: i64 = 253_370_764_800_000_000;

pub(super) fn time(at: Timestamp) -> Time {
    match at.as_micros() {
        ..0 => Time::NegInfinity,
        END.. => Time::PosInfinity,
        _ => Time::Value(at.into()),
    }
}

/// A text in ASCII: a database of any encoding can keep it.
pub(super) fn readable(text: &str) -> String {
    text.chars().map(|c| if matches!(c, ' '..='~' | '\n' | '\t') { c } else { '?' }).collect()
}

/// Who holds a key, whether its lease is still valid or not; nobody once it was released.
#[derive(Default)]
pub(super) struct HolderColumns {
    pub(super) server: Option<String>,
    pub(super) since: Option<Time>,
    pub(super) until: Option<Time>,
}

impl HolderColumns {
    pub(super) fn of(state: &State) -> Self {
        if let Some(Claimant { server, since, until, released: false, .. }) = &state.claimant {
            return Self {
                server: Some(readable(server)),
                since: Some(time(*since)),
                until: Some(time(*until)),
            };
        }
        let slots = &state.slots.held;
        let servers: Vec<String> = slots.iter().map(|slot| readable(&slot.server)).collect();
        Self {
            server: (!servers.is_empty()).then(|| names(&servers)),
            since: slots.iter().map(|slot| slot.since).min().map(time),
            until: slots.iter().map(|slot| slot.until).max().map(time),
        }
    }
}

/// Records to append, column by column.
#[derive(Default)]
pub(super) struct RecordColumns {
    pub(super) kinds: Vec<&'static str>,
    pub(super) ticks: Vec<Option<Time>>,
    pub(super) servers: Vec<String>,
    pub(super) started: Vec<Option<Time>>,
    pub(super) ended: Vec<Time>,
    pub(super) outcomes: Vec<String>,
    pub(super) errors: Vec<Option<String>>,
    pub(super) records: Vec<String>,
    /// How many older records of each kind stay beside the appended ones.
    pub(super) runs_kept: i64,
    pub(super) skips_kept: i64,
    /// Whether there was anything to append, even if none of it is kept.
    pub(super) trims: bool,
}

impl RecordColumns {
    /// The newest `keep` of each kind: what would be removed at once is not appended.
    pub(super) fn of(records: &[JobRecord], keep: usize) -> Self {
        let mut columns = Self { trims: !records.is_empty(), ..Self::default() };
        let (mut runs, mut skips) = (keep, keep);
        let mut kept: Vec<_> = records
            .iter()
            .rev()
            .filter(|record| {
                let left = if matches!(record, JobRecord::Run(_)) { &mut runs } else { &mut skips };
                let fits = *left > 0;
                *left -= usize::from(fits);
                fits
            })
            .collect();
        kept.reverse();
        for record in kept {
            columns.push(record);
        }
        let count = |left: usize| i64::try_from(left).unwrap_or(i64::MAX);
        (columns.runs_kept, columns.skips_kept) = (count(runs), count(skips));
        columns
    }

    fn push(&mut self, record: &JobRecord) {
        match record {
            JobRecord::Run(run) => {
                self.kinds.push(RUN);
                self.ticks.push(run.tick.map(time));
                self.servers.push(readable(&run.server));
                self.started.push(Some(time(run.started)));
                self.ended.push(time(run.ended));
                self.outcomes.push(run.outcome.as_str().to_owned());
                self.errors.push(run.error.as_deref().map(readable));
                self.records.push(to_ascii_json(run));
            }
            JobRecord::Skip(skip) => {
                self.kinds.push(SKIP);
                self.ticks.push(Some(time(skip.tick)));
                self.servers.push(readable(&skip.server));
                self.started.push(None);
                self.ended.push(time(skip.at));
                self.outcomes.push(to_ascii_json(&skip.reason).trim_matches('"').to_owned());
                self.errors.push(None);
                self.records.push(to_ascii_json(skip));
            }
        }
    }
}

pub(super) const RUN: &str = "run";
pub(super) const SKIP: &str = "skip";

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::super::{Kind, RunOutcome, RunRecord, Skip, SkipRecord, Slot, Slots};
    use super::*;

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
            progress: None,
            request: None,
        })
    }

    fn skip() -> JobRecord {
        let at = Timestamp::from_micros(3);
        JobRecord::Skip(SkipRecord { tick: at, reason: Skip::Held, server: "a".to_owned(), at })
    }

    #[test]
    fn newest_records_of_each_kind_are_appended() {
        let columns = RecordColumns::of(&[run(1), run(2), skip(), run(3)], 2);
        assert_eq!(columns.kinds, [RUN, SKIP, RUN]);
        assert_eq!((columns.runs_kept, columns.skips_kept), (0, 1));
        assert!(columns.records[0].contains("\"fence\":2"), "{:?}", columns.records);
        assert_eq!(columns.errors, [Some("Gr??e?".to_owned()), None, Some("Gr??e?".to_owned())]);
        assert_eq!(columns.outcomes, ["failed", "held", "failed"]);
    }

    #[test]
    fn holder_is_shown_until_the_key_is_released() {
        let claimant = |released| Claimant {
            token: "t".into(),
            server: "host-1".into(),
            kind: Kind::Run,
            tick: None,
            attempt: 1,
            request: None,
            since: Timestamp::from_micros(5),
            until: Timestamp::from_micros(9),
            ttl_micros: 4,
            released,
            broken_by: None,
            cancelled_by: None,
            progress: None,
        };
        let held = State { claimant: Some(claimant(false)), ..State::default() };
        let columns = HolderColumns::of(&held);
        assert_eq!(columns.server.as_deref(), Some("host-1"));
        assert_eq!(columns.until, Some(time(Timestamp::from_micros(9))));
        let released = State { claimant: Some(claimant(true)), ..State::default() };
        let HolderColumns { server, since, until } = HolderColumns::of(&released);
        assert_eq!((server, since, until), (None, None, None));
    }

    #[test]
    fn holders_of_slots_are_shown_together() {
        let slot = |server: &str, since, until| Slot {
            token: Arc::from("t"),
            server: server.into(),
            of: 2,
            fence: None,
            since: Timestamp::from_micros(since),
            until: Timestamp::from_micros(until),
        };
        let slots = Slots { held: vec![slot("a", 1, 9), slot("b", 2, 8)], ..Slots::default() };
        let columns = HolderColumns::of(&State { slots, ..State::default() });
        assert_eq!(columns.server.as_deref(), Some("a, b"));
        let [since, until] = [1, 9].map(|at| Some(time(Timestamp::from_micros(at))));
        assert_eq!((columns.since, columns.until), (since, until));
    }

    #[test]
    fn instant_that_no_calendar_has_is_infinite() {
        for (at, shown) in
            [(i64::MIN, Time::NegInfinity), (-1, Time::NegInfinity), (i64::MAX, Time::PosInfinity)]
        {
            assert_eq!(time(Timestamp::from_micros(at)), shown);
        }
    }
}
