//! What a record says of its key.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};
use singleton_jobs_policy::Timestamp;

use super::decide::messages::{Gap, Lease, RegisteredSchedule, RunRequest, Skip, Stats};

/// The version of [`KeyState`] that this crate writes, and the only one that it reads.
pub const FORMAT: u32 = 2;

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
    pub fn from_json(json: impl AsRef<[u8]>) -> Result<Self, UnreadableState> {
        let json = json.as_ref();
        serde_json::from_slice(json).map_err(|why| UnreadableState::of(json, "state", &why))
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

/// JSON in ASCII only: a text of any script passes through a database of any encoding.
///
/// # Panics
///
/// Never for plain data.
pub fn to_ascii_json<T: Serialize>(value: &T) -> String {
    let json = serde_json::to_string(value).expect("plain data");
    if json.is_ascii() { json } else { escaped(&json) }
}

fn escaped(json: &str) -> String {
    use std::fmt::Write;
    let mut ascii = String::with_capacity(json.len() * 2);
    for c in json.chars() {
        if c.is_ascii() {
            ascii.push(c);
        } else {
            // Outside of ASCII there are only characters of strings.
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(ascii, "\\u{unit:04x}").expect("a string takes every write");
            }
        }
    }
    ascii
}

fn this_format<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let format = u32::deserialize(deserializer)?;
    (format == FORMAT).then_some(format).ok_or_else(|| D::Error::custom("another format"))
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

/// Why a state cannot be read, to follow the name of what holds it: `has format 3, and …`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableState(pub(super) String);

impl UnreadableState {
    /// Of JSON that was expected to be a state, or a record with one. What another version wrote says so itself.
    pub(super) fn of(json: &[u8], expected: &str, why: &serde_json::Error) -> Self {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Format {
            format: Option<u32>,
            state: Option<Box<Format>>,
        }
        let outer: Format = serde_json::from_slice(json).unwrap_or_default();
        Self(match outer.format.or_else(|| outer.state?.format) {
            Some(format) if format != FORMAT => {
                format!("has format {format}, and this version reads format {FORMAT}")
            }
            _ => format!("is not the {expected} of a key ({why})"),
        })
    }
}

impl fmt::Display for UnreadableState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for UnreadableState {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Progress;

    #[test]
    fn state_is_stored_in_ascii() {
        let progress = Progress { done: 1, total: 2, status: "Grüße, 世界 🎉 \"\\\n\0".to_owned() };
        let json = to_ascii_json(&progress);
        assert!(json.is_ascii(), "{json}");
        assert_eq!(serde_json::from_str::<Progress>(&json).unwrap(), progress);
    }

    #[test]
    fn state_of_another_format_is_refused_by_its_number() {
        let refused = |json: &str| KeyState::from_json(json).unwrap_err().to_string();
        assert_eq!(refused(r#"{"format":1,"claimant":7}"#), "has format 1, and this version reads format 2");
        assert_eq!(refused(r#"{"format":3}"#), "has format 3, and this version reads format 2");
        assert!(refused("hello").starts_with("is not the state of a key"));
        assert!(refused("{}").starts_with("is not the state of a key"));
        let state = KeyState::default();
        assert_eq!(KeyState::from_json(state.to_json()), Ok(state));
    }
}
