//! The parameters of a model: the job's policy, the servers, the instants of the clock, and how often each fault occurs.

use jobs::schedule::{Missed, Overlap};

use crate::facts::Fact;
use crate::real::SECOND;
use crate::small::{Micros, NO_TICK, Tick};
use crate::state::Budget;

/// The policy of the job, or of the manual lock.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    /// The ticks, in seconds. One more, after the end of the clock, is used to check that the job can run again.
    pub due: &'static [u8],
    /// The tick after all others, in seconds.
    pub next_due: u8,
    pub ttl: Micros,
    pub grace: Micros,
    pub takeovers: u8,
    pub overlap: Overlap,
    pub missed: Missed,
    /// A manual lock: no ticks, and its record is deleted at its release.
    pub is_manual: bool,
    /// Whether the store has the lock that other programs share, as Redis does.
    pub shares_lock: bool,
    /// Whether runs are finished in transactions of the application.
    pub finishes: bool,
    /// Number of failures in a row that pause the job; 0 for never.
    pub pause_after: u32,
}

impl Policy {
    pub fn due_of(&self, tick: Tick) -> Micros {
        let seconds = self.due.get(usize::from(tick) - 1).copied().unwrap_or(self.next_due);
        Micros::from(seconds) * SECOND
    }

    pub fn tick_at(&self, instant: Micros) -> Tick {
        let found = (1..=self.extra_tick()).find(|tick| self.due_of(*tick) == instant);
        found.expect("a tick of the model")
    }

    /// The tick after all others.
    pub fn extra_tick(&self) -> Tick {
        Tick::try_from(self.due.len()).expect("few ticks") + 1
    }

    /// The ticks that servers claim.
    pub fn ticks(&self) -> impl Iterator<Item = Tick> + use<> {
        NO_TICK + 1..self.extra_tick()
    }
}

/// One model to be explored.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches, named wherever they are set")]
pub struct Configuration {
    pub name: &'static str,
    pub policy: Policy,
    pub servers: usize,
    /// The instants that real time passes through, in seconds. Nothing happens between two of them.
    pub clock: &'static [u8],
    /// How far the store's clock is past a whole second. Expiries are then rounded up to the next millisecond.
    pub past_second: Micros,
    /// How often each event occurs at most.
    pub budget: Budget,
    /// Jumps of the store's clock, in seconds, in this order.
    pub jumps: &'static [i8],
    /// Extensions and releases without a look, while the record is as this server wrote it.
    pub caches: bool,
    /// The first request of a manual lock is the swap "nothing there".
    pub swaps_first: bool,
    /// Whether a look reads the record at one time, and the clock and the lock at another.
    pub looks_twice: bool,
    /// Whether any time may pass between the answer to a claim and the first poll of the job.
    pub starts_late: bool,
    /// Facts that must be reached.
    pub sometimes: &'static [Fact],
}

impl Configuration {
    /// Whether the store can lose acknowledged writes.
    pub fn loses_writes(&self) -> bool {
        self.budget.wipes > 0 || self.budget.failovers > 0
    }

    /// Whether a record can disappear, by whatever means.
    pub fn loses_records(&self) -> bool {
        self.loses_writes() || self.policy.is_manual
    }

    /// Whether an instant that has passed is of no use any more.
    pub fn forgets_instants(&self) -> bool {
        self.jumps.is_empty() && !self.looks_twice
    }

    /// Whether only the order of fences matters: every new one is greater than all before.
    pub fn ranks_fences(&self) -> bool {
        !self.loses_records() && self.jumps.is_empty()
    }
}
