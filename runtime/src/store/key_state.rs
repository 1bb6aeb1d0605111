//! What a record says of its key.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use singleton_jobs_policy::Timestamp;

use super::decide::messages::{Gap, Lease, RegisteredSchedule, RunRequest, Skip, Stats};
use super::format::{FORMAT, UnreadableRecord, this_format, to_ascii_json};

/// The state of one key: what claims are decided by. A store keeps it as it is, and decides nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyState {
    /// [`FORMAT`].
    #[serde(deserialize_with = "this_format")]
    pub format: u32,
    /// The lease that was won last, slots aside. Its fence is the record's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimant: Option<Lease>,
    /// Whether that lease was ended, by its holder or by an operator.
    #[serde(default, skip_serializing_if = "is_default")]
    pub released: bool,
    /// The server of the operator who broke it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken_by: Option<Arc<str>>,
    /// The server of an operator who wants its run cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancelled_by: Option<Arc<str>>,
    /// The tick that was started last. Skips and manual claims leave it alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<StartedTick>,
    /// The newest tick that was claimed or skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<TickMark>,
    /// Until when a server that comes late may claim a tick up to the mark, for all it knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimable_until: Option<Timestamp>,
    /// Whether ticks are skipped until the job is resumed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub paused: bool,
    /// The schedule of the newest server that claimed, and since when the store knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registered: Option<RegisteredSchedule>,
    /// The last request for a manual run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<RunRequest>,
    /// Missed ticks that no server has reported yet, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missed: Vec<Gap>,
    /// The record's fence at the last [reset](super::decide::reset): what older leases say of the mark counts no longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reset_fence: Option<i64>,
    /// Counts over all runs.
    #[serde(default, skip_serializing_if = "is_default")]
    pub stats: Stats,
    /// That the key's work was done, for callers that want it once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<DoneMark>,
    /// Until when a lease that an operator broke may still try to come back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken_until: Option<Timestamp>,
    /// Who holds slots of the key, in the order in which they were won. A slot that has expired is free, though it may still be
    /// listed. The newest one has no fence: the next swap writes it down.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slots: Vec<Lease>,
    /// When the store began to keep the slots: it has lost what is older.
    #[serde(default, skip_serializing_if = "is_default")]
    pub slots_since: Timestamp,
    /// When the record expires by itself; `None` if a job has the key: then it stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
}

/// The last started tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartedTick {
    /// The tick.
    pub tick: Timestamp,
    /// How many servers have started it.
    pub attempt: u32,
    /// Whether a run of it ended by itself. Never becomes false again.
    #[serde(default, skip_serializing_if = "is_default")]
    pub finished: bool,
    /// How many attempts beyond the first it gets, by the policy under which it was first started.
    #[serde(default, skip_serializing_if = "is_default")]
    pub takeovers: u32,
}

/// The high-water mark of a job's ticks, and how it was reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TickMark {
    /// The newest tick that was decided.
    pub tick: Timestamp,
    /// Why it was skipped; `None` if it was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip: Option<Skip>,
    /// The server whose claim decided it.
    pub server: Arc<str>,
    /// When.
    pub at: Timestamp,
}

/// That a key's work was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoneMark {
    /// When.
    pub at: Timestamp,
    /// Until when that counts.
    pub until: Timestamp,
}

impl Default for KeyState {
    fn default() -> Self {
        Self {
            format: FORMAT,
            claimant: None,
            released: false,
            broken_by: None,
            cancelled_by: None,
            started: None,
            mark: None,
            paused: false,
            registered: None,
            request: None,
            missed: Vec::new(),
            reset_fence: None,
            stats: Stats::default(),
            done: None,
            broken_until: None,
            claimable_until: None,
            slots: Vec::new(),
            slots_since: Timestamp::from_micros(0),
            // Nothing is known, and that has expired already.
            expires: Some(Timestamp::from_micros(0)),
        }
    }
}

impl KeyState {
    /// The lease that holds the key at this instant, slots aside.
    pub fn holder(&self, now: Timestamp) -> Option<&Lease> {
        self.claimant.as_ref().filter(|lease| !self.released && lease.until > now)
    }

    /// The slots that are held at this instant.
    pub fn held_slots(&self, now: Timestamp) -> impl Iterator<Item = &Lease> {
        self.slots.iter().filter(move |slot| slot.until > now)
    }

    /// The state that [`to_json`](Self::to_json) wrote, unless another version of this crate did that.
    pub fn from_json(json: impl AsRef<[u8]>) -> Result<Self, UnreadableRecord> {
        let json = json.as_ref();
        serde_json::from_slice(json).map_err(|why| UnreadableRecord::of(json, "state", &why))
    }

    /// As text: JSON in ASCII only, so that a database of any encoding can keep it.
    ///
    /// # Panics
    ///
    /// Never: a state is plain data.
    pub fn to_json(&self) -> String {
        to_ascii_json(self)
    }
}

pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The number of an attempt, unless another one is stored.
pub(super) fn first() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
pub(super) fn is_first(attempt: &u32) -> bool {
    *attempt == first()
}

/// A duration in whole microseconds.
pub(super) mod as_micros {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn of(duration: Duration) -> u64 {
        u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
    }

    pub(crate) fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(of(*duration))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_micros)
    }
}
