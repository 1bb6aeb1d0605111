//! Bugs that a simulation plants in this crate, to prove that it would find them. In production there are none.

/// A plausible bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlantedBug {
    /// After "changed", the old decision is sent again with the new version.
    ResendsOldDecision,
    /// The local deadline of a lease counts from the arrival of the answer, not from the sending of the request.
    DeadlineFromArrival,
    /// A run is released although its future may still be in progress.
    ReleasesBeforeGone,
    /// A job's future is polled without a check of its lease.
    PollsWithoutLease,
    /// A release does not compare tokens.
    ReleaseIgnoresToken,
    /// A tick is taken over while its lease is still valid.
    TakesOverTooSoon,
    /// The store's clock is not compared with the tick.
    StartsEarly,
    /// Decisions ignore that a transaction of the application has committed the run's work.
    IgnoresFinish,
    /// A swap that ends a lease does not see that its work was committed since the look.
    SwapIgnoresFinish,
}

#[cfg(not(any(test, feature = "testing")))]
pub(crate) const fn is_planted(_bug: PlantedBug) -> bool {
    false
}

#[cfg(any(test, feature = "testing"))]
pub(crate) use switch::{is_planted, plant};

#[cfg(any(test, feature = "testing"))]
mod switch {
    use std::cell::Cell;

    use super::PlantedBug;

    thread_local! {
        static PLANTED: Cell<Option<PlantedBug>> = const { Cell::new(None) };
    }

    /// Whether this bug is planted on this thread.
    pub(crate) fn is_planted(bug: PlantedBug) -> bool {
        PLANTED.get() == Some(bug)
    }

    /// Plants a bug on this thread, or removes it.
    pub(crate) fn plant(bug: Option<PlantedBug>) {
        PLANTED.set(bug);
    }
}
