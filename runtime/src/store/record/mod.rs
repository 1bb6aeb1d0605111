//! A key's record as one value, and the meaning of a swap.

use std::sync::Arc;

use serde::Deserialize;
use singleton_jobs_policy::Timestamp;

use crate::store::{
    FencedLease, FinishMark, JobRecord, JobRecords, KeyState, LeaseId, Look, NotCurrent, SharedLock, Swap,
    SwapReply, Swapped, Version,
};
use format::{UnreadableRecord, from_object, object, to_ascii_json};

#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub(crate) mod columns;
pub(crate) mod fence;
pub(crate) mod format;
pub(crate) mod key_state;
pub(crate) mod look;

/// Everything that a store keeps for one key. A store of your own can keep it as one value, and call [`Record::swap`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Identifies the last write.
    pub version: Version,
    /// The fence of the newest lease.
    pub fence: i64,
    /// The state of the key.
    pub state: Arc<KeyState>,
    /// The run and skip records.
    pub records: JobRecords,
    /// The newest lease, for transactions of the application.
    pub lease: Option<FencedLease>,
}

impl Record {
    /// Returns the look at a record, and at the lock that other programs share, on a store that has one.
    pub fn look(record: Option<&Self>, lock: Option<&SharedLock>, now: Timestamp) -> Look {
        let lock = lock.filter(|lock| lock.until.is_none_or(|until| until > now)).cloned();
        match record {
            None => Look { lock, ..Look::nothing(now) },
            Some(record) => Look {
                now,
                version: Some(record.version),
                fence: record.fence,
                state: record.state.clone(),
                lock,
                finished: record.finish_mark(),
            },
        }
    }

    /// Applies a swap, or refuses it. The caller makes this one atomic step: it reads the record, and the lock on a store that
    /// has one, calls this with the time of the step, and writes both back if the swap was applied.
    pub fn swap(
        record: &mut Option<Self>,
        lock: Option<&mut Option<SharedLock>>,
        now: Timestamp,
        swap: &Swap,
    ) -> SwapReply {
        let look = Self::look(record.as_ref(), lock.as_deref().and_then(Option::as_ref), now);
        let Swap { change, .. } = swap;
        let token = look.lock.as_ref().map(|lock| &lock.token);
        if !swap.applies_to(&look) || lock.is_some() && token != swap.expected_lock.as_ref() {
            return SwapReply::Changed(look);
        }
        let version = Version { at: now, nonce: swap.nonce };
        let fence = change.fence.apply(look.fence, now);
        match &change.state {
            None => *record = None,
            Some(state) => {
                let (mut records, lease) =
                    record.take().map(|record| (record.records, record.lease)).unwrap_or_default();
                for appended in &change.records {
                    match appended {
                        JobRecord::Run(run) => append(&mut records.runs, run, change.keep),
                        JobRecord::Skip(skip) => append(&mut records.skips, skip, change.keep),
                    }
                }
                let lease = if change.ends_lease.is_some() { state.fenced_lease(fence) } else { lease };
                *record = Some(Self { version, fence, state: state.clone(), records, lease });
            }
        }
        if let Some(lock) = lock {
            *lock = change.lock.clone().apply(lock.take());
        }
        SwapReply::Swapped(Swapped { now, version, fence })
    }

    /// Marks the work of a lease as committed, in the same atomic step as the work itself. Refused unless the lease is the newest
    /// one of the key, and not marked yet.
    pub fn finish(
        record: &mut Option<Self>,
        LeaseId { token, fence }: LeaseId<'_>,
        mark: FinishMark,
    ) -> Result<(), NotCurrent> {
        let newest = record.as_mut().and_then(|record| record.lease.as_mut());
        let newest = newest.filter(|newest| newest.fence == fence && &*newest.token == token);
        let newest = newest.ok_or(NotCurrent::Superseded)?;
        if newest.finished.is_some() {
            return Err(NotCurrent::AlreadyFinished);
        }
        newest.finished = Some(mark);
        Ok(())
    }

    fn finish_mark(&self) -> Option<FinishMark> {
        self.lease.as_ref().filter(|lease| lease.fence == self.fence)?.finished
    }

    /// Whether the record has expired, and a store may remove it.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        let done_until = self.finish_mark().and_then(|mark| mark.done_until);
        self.state.expires.is_some_and(|expires| expires.max(done_until.unwrap_or(expires)) <= now)
    }

    /// Returns the record as text: the first line is all that a look needs, the second one has the run and skip records.
    ///
    /// # Panics
    ///
    /// Never: a record is plain data.
    pub fn to_text(&self) -> String {
        let Self { version, fence, state, records, lease } = self;
        let (state, tail) = (state.to_json(), to_ascii_json(records));
        let lease =
            lease.as_ref().map(|lease| format!("\"lease\":{},", to_ascii_json(lease))).unwrap_or_default();
        format!("{{\"version\":\"{version}\",\"fence\":{fence},{lease}\"state\":{state}}}\n{tail}\n")
    }

    /// Reads the record that [`to_text`](Self::to_text) wrote.
    pub fn from_text(text: &str) -> Result<Self, UnreadableRecord> {
        let (head, tail) = text.split_once('\n').unwrap_or((text, ""));
        let mut record = Self::from_first_line(head)?;
        record.records = serde_json::from_str(tail)
            .map_err(|error| UnreadableRecord(format!("has unreadable run or skip records: {error}")))?;
        Ok(record)
    }

    /// Reads the first line alone, without the run and skip records.
    pub fn from_first_line(line: impl AsRef<[u8]>) -> Result<Self, UnreadableRecord> {
        #[derive(Deserialize)]
        struct Head<'a> {
            version: &'a str,
            fence: i64,
            #[serde(default)]
            lease: Option<FencedLease>,
            #[serde(deserialize_with = "object")]
            state: KeyState,
        }
        let line = line.as_ref();
        let Head { version, fence, lease, state } =
            from_object(line).map_err(|why| UnreadableRecord::of(line, "record", &why))?;
        let version = version.parse().map_err(UnreadableRecord)?;
        Ok(Self { version, fence, state: Arc::new(state), records: JobRecords::default(), lease })
    }
}

fn append<T: Clone>(records: &mut Vec<T>, record: &T, keep: usize) {
    records.insert(0, record.clone());
    records.truncate(keep);
}
