//! The state of a key: the part of its record on which all decisions are made.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use singleton_jobs_policy::Timestamp;

use super::format::{FORMAT, UnreadableRecord, from_object, this_format, to_ascii_json};
use crate::store::FencedLease;
use crate::store::decide::messages::{
    FleetState, Gap, Lease, Pause, RegisteredSchedule, RunRequest, Skip, Stats,
};

/// The state of one key. Claims are decided on it; a store keeps it unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyState {
    /// [`FORMAT`].
    #[serde(deserialize_with = "this_format")]
    pub format: u32,
    /// The lease that was won last, except for slots. Its fence is the record's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimant: Option<Lease>,
    /// Whether that lease was ended, by its holder or by an operator.
    #[serde(default, skip_serializing_if = "is_default")]
    pub released: bool,
    /// The server of the operator who broke it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken_by: Option<Arc<str>>,
    /// The server of the operator who asked for its run to be cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancelled_by: Option<Arc<str>>,
    /// The tick that was started last. Skips and manual claims do not change it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<StartedTick>,
    /// The newest tick that was claimed or skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<TickMark>,
    /// Instant until which a late server may still claim a tick up to the mark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimable_until: Option<Timestamp>,
    /// The pause: ticks are skipped while it lasts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<Pause>,
    /// The schedule of the newest server that claimed a tick.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registered: Option<RegisteredSchedule>,
    /// The last request for a manual run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<RunRequest>,
    /// Missed ticks that no server has reported yet, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missed: Vec<Gap>,
    /// The record's fence at the last [reset](crate::store::decide::reset): older leases no longer raise the mark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reset_fence: Option<i64>,
    /// Counts over all runs.
    #[serde(default, skip_serializing_if = "is_default")]
    pub stats: Stats,
    /// The mark that the key's work was done, for callers that do it once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<DoneMark>,
    /// Instant until which the holder of a broken lease may still try to extend it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken_until: Option<Timestamp>,
    /// The leases of the key's slots, in the order in which they were won. An expired slot is free, even if it is still
    /// listed. The newest one has no fence: the next swap writes it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slots: Vec<Lease>,
    /// Instant at which the store began to keep the slots: it has lost older ones.
    #[serde(default, skip_serializing_if = "is_default")]
    pub slots_since: Timestamp,
    /// Of the record that all servers share: what is not about a single job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fleet: Option<Arc<FleetState>>,
    /// Instant at which the record expires; `None` if a job has the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
}

/// The last started tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartedTick {
    /// The tick.
    pub tick: Timestamp,
    /// Number of servers that have started it.
    pub attempt: u32,
    /// Whether a run of it ended by itself. Once true, it stays true.
    #[serde(default, skip_serializing_if = "is_default")]
    pub finished: bool,
    /// Number of attempts beyond the first, by the policy under which it was first started.
    #[serde(default, skip_serializing_if = "is_default")]
    pub takeovers: u32,
}

/// The high-water mark of a job's ticks, and how it was reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TickMark {
    /// The newest tick that was decided.
    pub tick: Timestamp,
    /// The reason for which it was skipped; `None` if it was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip: Option<Skip>,
    /// The server whose claim decided it.
    pub server: Arc<str>,
    /// Instant of the decision.
    pub at: Timestamp,
}

/// The mark that a key's work was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoneMark {
    /// Instant at which it was done.
    pub at: Timestamp,
    /// Instant until which the mark counts.
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
            pause: None,
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
            fleet: None,
            // A record that does not exist counts as expired.
            expires: Some(Timestamp::from_micros(0)),
        }
    }
}

impl KeyState {
    /// Returns the lease that holds the key at this instant, except for slots.
    pub fn holder(&self, now: Timestamp) -> Option<&Lease> {
        self.claimant.as_ref().filter(|lease| !self.released && lease.until > now)
    }

    /// Returns the newest lease for transactions of the application, with this fence; `None` for slots. Without a token if it was ended.
    pub(crate) fn fenced_lease(&self, fence: i64) -> Option<FencedLease> {
        let newest = self.claimant.as_ref()?;
        let token = if self.released { Arc::from("") } else { newest.token.clone() };
        Some(FencedLease { fence, token, finished: None })
    }

    /// Returns the pause that counts at this instant.
    pub fn active_pause(&self, now: Timestamp) -> Option<&Pause> {
        self.pause.as_ref().filter(|pause| pause.is_active(now))
    }

    /// Returns the slots that are held at this instant.
    pub fn held_slots(&self, now: Timestamp) -> impl Iterator<Item = &Lease> {
        self.slots.iter().filter(move |slot| slot.until > now)
    }

    /// Reads the state that [`to_json`](Self::to_json) wrote. Refuses another [format](FORMAT).
    pub fn from_json(json: impl AsRef<[u8]>) -> Result<Self, UnreadableRecord> {
        let json = json.as_ref();
        from_object(json).map_err(|why| UnreadableRecord::of(json, "state", &why))
    }

    /// Returns the state as JSON in ASCII only, so that a database of any encoding can keep it.
    ///
    /// # Panics
    ///
    /// Never: a state is plain data.
    pub fn to_json(&self) -> String {
        to_ascii_json(self)
    }
}

pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The number of an attempt, unless another one is stored.
pub(crate) fn first() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
pub(crate) fn is_first(attempt: &u32) -> bool {
    *attempt == first()
}

/// A duration in whole microseconds.
pub(crate) mod as_micros {
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
