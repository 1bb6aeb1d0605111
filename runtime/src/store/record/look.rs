//! The arguments and answers of the two verbs, look and swap, and of the store's other methods.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use singleton_jobs_policy::Timestamp;

use super::format::records;
use crate::store::{EndedLease, FinishMark, KeyState, RunRecord, SkipRecord};
use crate::util::planted::{PlantedBug, is_planted};

/// A key as the store shows it at one instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    /// The store's clock.
    pub now: Timestamp,
    /// The version of the key's record; `None` if there is no record.
    pub version: Option<Version>,
    /// The fence of the newest lease; 0 if there is no record.
    pub fence: i64,
    /// The record's state; the default if there is no record.
    pub state: Arc<KeyState>,
    /// The lock that other programs see; always `None` on a store without one.
    pub lock: Option<SharedLock>,
    /// The mark that a transaction of the application committed the work of the newest lease. Read together with the version.
    pub finished: Option<FinishMark>,
}

impl Look {
    /// Creates the look at a key without a record.
    pub fn nothing(now: Timestamp) -> Self {
        Self { now, version: None, fence: 0, state: Arc::default(), lock: None, finished: None }
    }
}

/// Identifies one write of a record: the store's clock at the swap, joined with the swap's nonce. Never reused, not even
/// by a store that was wiped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Version {
    /// The store's clock at the swap.
    pub at: Timestamp,
    /// The swap's [nonce](Swap::nonce).
    pub nonce: u64,
}

/// The text that stores keep: `1800014400000000-0123456789abcdef`.
impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:016x}", self.at.as_micros(), self.nonce)
    }
}

/// Reads only the text that `Display` writes: stores compare versions as texts, and no swap would match another one.
impl FromStr for Version {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let (at, nonce) = text.rsplit_once('-')?;
            let digits = at.strip_prefix('-').unwrap_or(at);
            let is_plain = at == "0" || !digits.starts_with(['0', '+']);
            let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
            if !is_plain || nonce.len() != 16 || !nonce.bytes().all(is_hex) {
                return None;
            }
            let nonce = u64::from_str_radix(nonce, 16).ok()?;
            Some(Self { at: Timestamp::from_micros(at.parse().ok()?), nonce })
        };
        parse().ok_or_else(|| format!("{text:?} is not the version of a record"))
    }
}

/// The lock that other programs share: on Redis, the string `lock:<key>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedLock {
    /// The token of its holder: one of this crate, or any text of another program.
    pub token: Arc<str>,
    /// Instant at which it expires; `None` if never.
    pub until: Option<Timestamp>,
}

/// A conditional write of one key's record. The store applies all of it in one atomic step, or nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Swap {
    /// The version that the record must have; `None`: there must be no record.
    pub expected: Option<Version>,
    /// The token that the [lock](Look::lock) must have; `None`: there must be no lock. A store without one ignores it.
    pub expected_lock: Option<Arc<str>>,
    /// Random; becomes part of the new [`Version`].
    pub nonce: u64,
    /// The change to write.
    pub change: Change,
}

impl Swap {
    /// Whether a key is as the swap expects it, but for the lock that other programs share.
    pub(crate) fn applies_to(&self, look: &Look) -> bool {
        let Change { not_before, not_after, .. } = &self.change;
        look.version == self.expected
            && not_before.is_none_or(|limit| look.now >= limit)
            && not_after.is_none_or(|limit| look.now <= limit)
            && self.change.expects(look.finished)
    }
}

/// The change that a [`Swap`] writes, and its limits in time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// The swap is refused while the store's clock is before this instant.
    pub not_before: Option<Timestamp>,
    /// The swap is refused once the store's clock is after this instant.
    pub not_after: Option<Timestamp>,
    /// The new state; `None` deletes the record, with the key's run and skip records.
    pub state: Option<Arc<KeyState>>,
    /// The change of the fence.
    pub fence: FenceChange,
    /// The change of the lock that other programs see. A store without one ignores it.
    pub lock: LockChange,
    /// Records to append. The store then trims each kind that was appended to to the newest `keep`.
    pub records: Vec<JobRecord>,
    /// Number of run records, and of skip records, that the store keeps.
    pub keep: usize,
    /// Whether the key may have become free, and [subscribers](crate::store::Store::listen) are notified.
    pub notify: bool,
    /// Set if the swap ends the newest lease on behalf of another one than its holder, or deletes it: a new lease, an operator's
    /// break, the record of a crash. The swap is refused if a transaction has marked the work as finished since the look, and
    /// afterwards no transaction can. Every other swap leaves the mark as it is.
    pub ends_lease: Option<EndedLease>,
    /// Whether the swap grants or extends a lease. A store that can lose acknowledged writes confirms such a swap before it
    /// answers, if it is configured to.
    pub grants_lease: bool,
}

impl Change {
    /// Whether a key with this mark is as the decision has seen it.
    pub(crate) fn expects(&self, finished: Option<FinishMark>) -> bool {
        self.ends_lease.is_none_or(|ended| ended.is_finished == finished.is_some())
            || is_planted(PlantedBug::SwapIgnoresFinish)
    }
}

/// The change of a record's fence. No swap lowers it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FenceChange {
    /// Leaves it as it is.
    #[default]
    Keep,
    /// A new lease: the greater of the stored fence + 1 and the store's clock in microseconds.
    Next,
    /// Raises it to at least this: a lease that the store had lost.
    AtLeast(i64),
}

impl FenceChange {
    /// Returns the fence that a store writes.
    pub fn apply(self, stored: i64, now: Timestamp) -> i64 {
        match self {
            Self::Keep => stored,
            Self::Next => stored.saturating_add(1).max(now.as_micros()),
            Self::AtLeast(fence) => stored.max(fence),
        }
    }
}

/// The change of the lock that other programs see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LockChange {
    /// Leaves it as it is.
    #[default]
    Leave,
    /// Deletes it.
    Delete,
    /// Sets it.
    Set {
        /// The value of the lock.
        token: Arc<str>,
        /// Instant at which it expires, in whole milliseconds.
        until: Timestamp,
    },
}

impl LockChange {
    /// Returns the lock that a store writes.
    pub fn apply(self, lock: Option<SharedLock>) -> Option<SharedLock> {
        match self {
            Self::Leave => lock,
            Self::Delete => None,
            Self::Set { token, until } => Some(SharedLock { token, until: Some(until) }),
        }
    }
}

/// A record that a swap appends beside the state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobRecord {
    /// A run that ended.
    Run(RunRecord),
    /// A tick that was skipped for all servers.
    Skip(SkipRecord),
}

/// The answer to a [`Swap`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SwapReply {
    /// All of it was applied.
    Swapped(Swapped),
    /// Nothing was applied. The look shows the key as it is now.
    Changed(Look),
}

impl SwapReply {
    /// Returns the store's clock at the answer.
    pub fn now(&self) -> Timestamp {
        match self {
            Self::Swapped(swapped) => swapped.now,
            Self::Changed(look) => look.now,
        }
    }
}

/// A swap that was applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swapped {
    /// The store's clock at the swap.
    pub now: Timestamp,
    /// The record's new version.
    pub version: Version,
    /// The record's new fence.
    pub fence: i64,
}

/// The run and skip records of a key, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRecords {
    /// Runs that ended.
    #[serde(with = "records")]
    pub runs: Vec<RunRecord>,
    /// Ticks that were skipped for all servers.
    #[serde(with = "records")]
    pub skips: Vec<SkipRecord>,
}

impl JobRecords {
    /// Keeps the newest ones, at most so many of each kind.
    #[must_use]
    pub fn newest(mut self, newest: usize) -> Self {
        self.runs.truncate(newest);
        self.skips.truncate(newest);
        self
    }
}

/// A page of the keys that have a record or a lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// The keys, each with a look. A key may appear on more than one page.
    pub keys: Vec<(String, Look)>,
    /// The beginning of the next page, in the store's own notation; `None` after the last one.
    pub next: Option<String>,
}

/// The topic of a [note](Note).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Topic {
    /// Servers that are alive, by their id.
    Servers,
    /// Requests for manual runs, by the job's key.
    Requests,
    /// The [manifests](crate::fleet::Manifest) of programs, by their hash.
    Manifests,
}

impl Topic {
    /// All topics.
    pub const ALL: [Self; 3] = [Self::Servers, Self::Requests, Self::Manifests];

    /// Returns the topic as one word, as stores keep it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Servers => "servers",
            Self::Requests => "requests",
            Self::Manifests => "manifests",
        }
    }
}

/// A text that expires by itself. No decision depends on notes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Its name within the topic. A later note of the same name replaces it.
    pub name: String,
    /// The text.
    pub text: Arc<str>,
}

/// The notes of a topic, and the store's time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// The store's clock.
    pub now: Timestamp,
    /// The notes that have not expired, in the order of their names.
    pub notes: Vec<Note>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_survives_its_text() {
        for at in [i64::MIN, -1, 0, 1_800_014_400_000_000, i64::MAX] {
            for nonce in [0, 1, u64::MAX] {
                let version = Version { at: Timestamp::from_micros(at), nonce };
                assert_eq!(version.to_string().parse(), Ok(version));
            }
        }
        for other in [
            "17",
            "7-7",
            "+7-0123456789abcdef",
            "07-0123456789abcdef",
            "-0-0123456789abcdef",
            "7-0123456789ABCDEF",
        ] {
            assert!(other.parse::<Version>().is_err(), "{other}");
        }
    }

    #[test]
    fn fence_never_goes_down() {
        let now = Timestamp::from_micros(100);
        assert_eq!(FenceChange::Next.apply(0, now), 100);
        assert_eq!(FenceChange::Next.apply(100, now), 101);
        assert_eq!(FenceChange::Next.apply(500, now), 501);
        assert_eq!(FenceChange::AtLeast(7).apply(500, now), 500);
        assert_eq!(FenceChange::AtLeast(700).apply(500, now), 700);
        assert_eq!(FenceChange::Keep.apply(500, now), 500);
    }
}
