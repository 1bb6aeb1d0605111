//! Checks the history of a fleet against the promise of this crate.
//!
//! A harness writes a [`Trace`] while a fleet runs under faults: what the jobs' functions saw, what servers reported, and
//! the faults. [`check`] decides afterwards whether every [`Invariant`] holds. The simulation and the tests with real
//! processes use the same checks.
//!
//! What the promise excludes is not a violation: a double start after the store lost acknowledged writes, or an overlap
//! with a holder that was stopped past its lease. The [`Verdict`] counts these cases apart, so that their rate is known.

mod effects;
mod holding;
mod observation;
mod progress;
mod safety;
#[cfg(test)]
mod tests;
mod timeline;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use observation::{Fault, HELD, KeyRules, LeaseRef, Observation, Observed, Trace};
use timeline::Timeline;

/// What must hold in every history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Invariant {
    /// I1: a tick is started once; with takeovers, each attempt once.
    OneStart,
    /// I2: runs of a job do not overlap, and no more than the permits of a semaphore are held.
    NoOverlap,
    /// I3: fences are unique, and grow from lease to lease.
    GrowingFences,
    /// I4: no lease is changed by the holder of another one, or lost without a fault.
    OwnLeaseOnly,
    /// I5: after the last fault ticks run again, and nothing stays locked for longer than its ttl.
    Recovery,
    /// I6: a resource that compares fences accepts no stale write.
    FencedWrites,
    /// I7: no run starts before its tick by the store's clock.
    NotEarly,
    /// I8: every tick that did not run is reported or recorded, with the reason.
    Explained,
    /// I9: a server that hangs or is cut off keeps other servers from running for no longer than a ttl.
    HungServer,
    /// I10: the effects that are committed with the end of a run are committed once per tick, by the newest lease, and recorded.
    OneEffect,
}

impl Invariant {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 10] = [
        Self::OneStart,
        Self::NoOverlap,
        Self::GrowingFences,
        Self::OwnLeaseOnly,
        Self::Recovery,
        Self::FencedWrites,
        Self::NotEarly,
        Self::Explained,
        Self::HungServer,
        Self::OneEffect,
    ];
}

/// Its number and meaning: `I1 one start per tick`.
impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OneStart => "I1 one start per tick",
            Self::NoOverlap => "I2 no overlap",
            Self::GrowingFences => "I3 growing fences",
            Self::OwnLeaseOnly => "I4 own lease only",
            Self::Recovery => "I5 recovery",
            Self::FencedWrites => "I6 fenced writes",
            Self::NotEarly => "I7 not early",
            Self::Explained => "I8 explained",
            Self::HungServer => "I9 hung server",
            Self::OneEffect => "I10 effects once",
        })
    }
}

/// A place in a history where an invariant does not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// The invariant.
    pub invariant: Invariant,
    /// When, by the clock of the [observations](Observation::at).
    pub at: u64,
    /// The key of the job or lock.
    pub key: Arc<str>,
    /// What happened.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { invariant, at, key, message } = self;
        write!(f, "{invariant} at {at} µs, key {key:?}: {message}")
    }
}

/// Numbers of what a history contains.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Ticks that became due.
    pub ticks: u64,
    /// Leases under which a job's function was called, or a lock was held.
    pub runs: u64,
    /// Calls of jobs' functions, with retries.
    pub calls: u64,
    /// Steps under a lease.
    pub steps: u64,
    /// Accepted writes.
    pub writes: u64,
    /// Effects that were committed with the end of their runs.
    #[serde(default)]
    pub effects: u64,
    /// Faults by kind.
    pub faults: BTreeMap<Fault, u64>,
}

/// The result of a [`check`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// What the history contains.
    pub counts: Counts,
    /// Where an invariant does not hold.
    pub violations: Vec<Violation>,
    /// Where an invariant does not hold because of a fault that the promise excludes.
    pub excused: Vec<Violation>,
}

/// Decides every invariant on a history.
pub fn check(trace: &Trace) -> Verdict {
    let timeline = Timeline::of(trace);
    let mut verdict = Verdict { counts: timeline.counts.clone(), ..Verdict::default() };
    safety::check(&timeline, &mut verdict);
    effects::check(&timeline, &mut verdict);
    progress::check(&timeline, &mut verdict);
    verdict.violations.sort_by_key(|violation| violation.at);
    verdict
}

impl Verdict {
    /// Adds a violation, as excused or not.
    fn add(&mut self, excused: bool, violation: Violation) {
        if excused { &mut self.excused } else { &mut self.violations }.push(violation);
    }
}
