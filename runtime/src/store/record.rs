//! A key's record as a plain value: the meaning of a swap, for stores that can hold a record in one piece.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::Deserialize;
use singleton_jobs_policy::Timestamp;

use super::state::{UnreadableState, to_ascii_json};
use super::{
    FORMAT, JobRecord, JobRecords, Lock, LockChange, Look, RunRecord, SkipRecord, State, Swap, SwapReply,
    Swapped, Version,
};

/// Everything a store keeps of one key. A store of your own can keep it as one value, and leave the meaning of a swap to
/// [`Record::swap`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Identifies the last write.
    pub version: Version,
    /// The fence of the newest lease.
    pub fence: i64,
    /// What is known of the key.
    pub state: Arc<State>,
    /// Runs that ended, newest first.
    pub runs: VecDeque<RunRecord>,
    /// Skipped ticks, newest first.
    pub skips: VecDeque<SkipRecord>,
}

impl Record {
    /// A record that says nothing yet.
    pub(super) fn new(version: Version) -> Self {
        Self { version, fence: 0, state: Arc::default(), runs: VecDeque::new(), skips: VecDeque::new() }
    }

    /// What a look at a record shows, on a store without a lock that other programs share.
    pub fn look(record: Option<&Self>, now: Timestamp) -> Look {
        Self::look_with_lock(record, None, now)
    }

    /// The same on a store with such a lock.
    pub fn look_with_lock(record: Option<&Self>, lock: Option<&Lock>, now: Timestamp) -> Look {
        let lock = lock.filter(|lock| lock.until.is_none_or(|until| until > now)).cloned();
        match record {
            None => Look { lock, ..Look::nothing(now) },
            Some(record) => Look {
                now,
                version: Some(record.version),
                fence: record.fence,
                state: record.state.clone(),
                lock,
            },
        }
    }

    /// Applies a swap, or refuses it, on a store without a lock that other programs share. The caller makes this one atomic step: it reads the record, calls this with the time
    /// of that step, and writes the record back if the swap was applied.
    pub fn swap(record: &mut Option<Self>, now: Timestamp, swap: &Swap) -> SwapReply {
        let swap = &Swap { expected_lock: None, ..swap.clone() };
        Self::swap_with_lock(record, &mut None, now, swap)
    }

    /// The same on a store with a lock that other programs share.
    pub fn swap_with_lock(
        record: &mut Option<Self>,
        lock: &mut Option<Lock>,
        now: Timestamp,
        swap: &Swap,
    ) -> SwapReply {
        let look = Self::look_with_lock(record.as_ref(), lock.as_ref(), now);
        let Swap { change, .. } = swap;
        let as_expected = look.version == swap.expected
            && look.lock.as_ref().map(|lock| &lock.token) == swap.expected_lock.as_ref()
            && change.not_before.is_none_or(|limit| now >= limit)
            && change.not_after.is_none_or(|limit| now <= limit);
        if !as_expected {
            return SwapReply::Changed(look);
        }
        let version = Version { at: now, nonce: swap.nonce };
        let fence = change.fence.apply(look.fence, now);
        match &change.state {
            None => *record = None,
            Some(state) => {
                let (mut runs, mut skips) =
                    record.take().map(|record| (record.runs, record.skips)).unwrap_or_default();
                for appended in &change.records {
                    match appended {
                        JobRecord::Run(run) => append(&mut runs, run, change.keep),
                        JobRecord::Skip(skip) => append(&mut skips, skip, change.keep),
                    }
                }
                *record = Some(Self { version, fence, state: state.clone(), runs, skips });
            }
        }
        match &change.lock {
            LockChange::Leave => {}
            LockChange::Delete => *lock = None,
            LockChange::Set { token, until } => {
                *lock = Some(Lock { token: token.clone(), until: Some(*until) });
            }
        }
        SwapReply::Swapped(Swapped { now, version, fence })
    }

    /// The run and skip records.
    pub fn records(&self) -> JobRecords {
        JobRecords { runs: self.runs.iter().cloned().collect(), skips: self.skips.iter().cloned().collect() }
    }

    /// Whether the record has expired, and a store may remove it.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.state.expires.is_some_and(|expires| expires <= now)
    }

    /// As text: the first line is all that a look needs, the second one has the run and skip records.
    ///
    /// # Panics
    ///
    /// Never: a record is plain data.
    pub fn to_text(&self) -> String {
        let Self { version, fence, state, runs, skips } = self;
        let (state, tail) = (state.to_json(), to_ascii_json(&(runs, skips)));
        format!("{{\"version\":\"{version}\",\"fence\":{fence},\"state\":{state}}}\n{tail}\n")
    }

    /// The record that [`to_text`](Self::to_text) wrote.
    pub fn from_text(text: &str) -> Result<Self, UnreadableState> {
        let (head, tail) = text.split_once('\n').unwrap_or((text, ""));
        let mut record = Self::from_first_line(head)?;
        (record.runs, record.skips) = serde_json::from_str(tail)
            .map_err(|error| UnreadableState::new(format!("has damaged run records ({error})")))?;
        Ok(record)
    }

    /// The same from the first line alone: without the run and skip records.
    pub fn from_first_line(line: impl AsRef<[u8]>) -> Result<Self, UnreadableState> {
        #[derive(Deserialize)]
        struct Head<'a> {
            version: &'a str,
            fence: i64,
            state: State,
        }
        let head = match serde_json::from_slice(line.as_ref()) {
            Ok(Head { version, fence, state }) if state.format == FORMAT => Ok((version, fence, state)),
            Ok(_) => Err(String::new()),
            Err(error) => Err(error.to_string()),
        };
        let (version, fence, state) =
            head.map_err(|why| UnreadableState::of(line.as_ref(), "record", &why))?;
        let version = version.parse().map_err(UnreadableState::new)?;
        Ok(Self { fence, state: Arc::new(state), ..Self::new(version) })
    }
}

fn append<T: Clone>(records: &mut VecDeque<T>, record: &T, keep: usize) {
    records.push_front(record.clone());
    records.truncate(keep);
}
