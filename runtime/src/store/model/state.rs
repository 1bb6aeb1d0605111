use std::collections::VecDeque;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use singleton_jobs_policy::Timestamp;

use super::super::messages::{Kind, Progress, Registered, Requested, RunRecord, Skip, SkipRecord, Stats};
use super::Slots;

/// The version of [`State`] that this crate writes. A store refuses a state with a newer one.
pub const FORMAT: u32 = 1;

/// Everything a store keeps for one key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// [`FORMAT`] when it was written.
    pub format: u32,
    /// Who won the key last.
    pub claimant: Option<Claimant>,
    /// The tick that was started last. Skips and claims by hand leave it alone.
    pub started: Option<Started>,
    /// The newest tick that was claimed or skipped.
    pub mark: Option<Mark>,
    /// The newest lease's fence.
    pub fence: i64,
    /// Whether ticks are skipped until further notice.
    pub paused: bool,
    /// The schedule of the newest server that claimed, and since when the store knows it.
    pub registered: Option<Registered>,
    /// The last request to run the job by hand.
    pub request: Option<Requested>,
    /// Counts over all runs.
    #[serde(default)]
    pub stats: Stats,
    /// The lock other programs see; on Redis a key of its own, which they may set, too.
    pub lock: Option<Lock>,
    /// Whether the key's work was done, for whoever wants it once.
    #[serde(default)]
    pub done: Option<Done>,
    /// Who holds slots of the key.
    #[serde(default)]
    pub slots: Slots,
    /// When all of this, but the lock and the slots, goes away by itself. `None` if a job has the key: then it stays.
    #[serde(default)]
    pub expires: Option<Timestamp>,
    /// Newest first.
    pub runs: VecDeque<RunRecord>,
    /// Newest first.
    pub skips: VecDeque<SkipRecord>,
}

/// The last winner of a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claimant {
    /// Its proof of ownership.
    pub token: Arc<str>,
    /// Where it runs.
    pub server: Arc<str>,
    /// What it holds the key for.
    #[serde(default)]
    pub kind: Kind,
    /// What it claimed: a tick, or `None` for now.
    pub tick: Option<Timestamp>,
    /// Which attempt at the tick it is.
    pub attempt: u32,
    /// When it won.
    pub since: Timestamp,
    /// When its lease ends.
    pub until: Timestamp,
    /// Whether it ended the lease itself.
    pub released: bool,
    /// How far its run is, as of the last extension.
    pub progress: Option<Progress>,
}

/// The last started tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// Which one.
    pub tick: Timestamp,
    /// How many servers have started it.
    pub attempt: u32,
    /// Whether a run of it ended by itself. Never becomes false again.
    pub finished: bool,
}

/// The high-water mark of a job's ticks, and how it got there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// The newest tick that was decided.
    pub tick: Timestamp,
    /// Why it was skipped; `None` if it was started.
    pub skip: Option<Skip>,
    /// The server whose claim decided it.
    pub server: Arc<str>,
    /// When.
    pub at: Timestamp,
}

/// That a key's work was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// When.
    pub at: Timestamp,
    /// Up to when that counts.
    pub until: Timestamp,
}

/// The lock as other programs see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lock {
    /// Ours if it is a claimant's.
    pub token: Arc<str>,
    /// When it vanishes, if ever.
    pub until: Option<Timestamp>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            format: FORMAT,
            claimant: None,
            started: None,
            mark: None,
            fence: 0,
            paused: false,
            registered: None,
            request: None,
            stats: Stats::default(),
            lock: None,
            done: None,
            slots: Slots::default(),
            // Nothing is known, and that has gone already.
            expires: Some(Timestamp::default()),
            runs: VecDeque::new(),
            skips: VecDeque::new(),
        }
    }
}

impl State {
    /// The state that [`to_json`](Self::to_json) wrote, unless a version of this crate did that whose states this one
    /// cannot read.
    pub fn from_json(json: impl AsRef<[u8]>) -> Result<Self, UnreadableState> {
        #[derive(Deserialize)]
        struct Format {
            format: u32,
        }
        let foreign = |error| UnreadableState(format!("is not the state of a job ({error})"));
        let Format { format } = serde_json::from_slice(json.as_ref()).map_err(foreign)?;
        if format > FORMAT {
            let why = format!("has format {format}, and this version reads up to {FORMAT}");
            return Err(UnreadableState(why));
        }
        serde_json::from_slice(json.as_ref()).map_err(foreign)
    }

    /// As text.
    ///
    /// # Panics
    ///
    /// Never: a state is plain data.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a state is plain data")
    }
}

/// Why a state cannot be read, to follow the name of what holds it: `has format 2, and …`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableState(String);

impl fmt::Display for UnreadableState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for UnreadableState {}
