//! Mistakes that the simulation must find.

pub(super) mod broken_store;
pub(super) mod naive;

use std::fmt;
use std::str::FromStr;

use super::execute::simulate;
use super::plan::{Plan, StoreLosses};
use crate::testing::check::Invariant;
use crate::util::planted::PlantedBug;

/// A mistake that the simulation must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// A lock that is set if it is absent, and deleted after the run.
    PlainLock,
    /// The same, deleted without a look at whose it is.
    BareDelete,
    /// The same, with a keep-alive that ends at its first error.
    KeepAliveStops,
    /// Versions of records are counted, so that they come back after a wipe.
    CountedVersions,
    /// Fences are counted, so that they come back after lost writes.
    CountedFences,
    /// A resource that accepts every write.
    UnfencedWriter,
    /// A transaction that commits without a look at the lease.
    UncheckedCommit,
    /// A bug in this crate.
    Planted(PlantedBug),
}

impl Control {
    /// All controls.
    pub const ALL: [Self; 16] = [
        Self::PlainLock,
        Self::BareDelete,
        Self::KeepAliveStops,
        Self::CountedVersions,
        Self::CountedFences,
        Self::UnfencedWriter,
        Self::UncheckedCommit,
        Self::Planted(PlantedBug::ResendsOldDecision),
        Self::Planted(PlantedBug::DeadlineFromArrival),
        Self::Planted(PlantedBug::ReleasesBeforeGone),
        Self::Planted(PlantedBug::PollsWithoutLease),
        Self::Planted(PlantedBug::ReleaseIgnoresToken),
        Self::Planted(PlantedBug::TakesOverTooSoon),
        Self::Planted(PlantedBug::StartsEarly),
        Self::Planted(PlantedBug::IgnoresFinish),
        Self::Planted(PlantedBug::SwapIgnoresFinish),
    ];

    /// The invariant that it breaks.
    pub fn breaks(self) -> Invariant {
        match self {
            Self::PlainLock | Self::Planted(PlantedBug::ResendsOldDecision) => Invariant::OneStart,
            Self::CountedFences => Invariant::GrowingFences,
            Self::UnfencedWriter => Invariant::FencedWrites,
            Self::BareDelete
            | Self::CountedVersions
            | Self::Planted(PlantedBug::ReleaseIgnoresToken | PlantedBug::TakesOverTooSoon) => {
                Invariant::OwnLeaseOnly
            }
            Self::Planted(PlantedBug::StartsEarly) => Invariant::NotEarly,
            Self::UncheckedCommit
            | Self::Planted(PlantedBug::IgnoresFinish | PlantedBug::SwapIgnoresFinish) => {
                Invariant::OneEffect
            }
            Self::KeepAliveStops | Self::Planted(_) => Invariant::NoOverlap,
        }
    }

    /// Whether it shows only on a store that loses writes.
    pub fn needs_losses(self) -> bool {
        matches!(self, Self::CountedVersions | Self::CountedFences)
    }
}

/// Returns the number of seeds after which the simulation finds a mistake, if it is at most this number.
pub fn seeds_to_find(control: Control, most: u64) -> Option<u64> {
    let losses = if control.needs_losses() { StoreLosses::Lossy } else { StoreLosses::None };
    let is_found = |seed: &u64| {
        let plan = Plan::draw(*seed, losses).with_control(control);
        simulate(&plan).verdict.violations.iter().any(|violation| violation.invariant == control.breaks())
    };
    (0..most).find(is_found).map(|seed| seed + 1)
}

/// The name of the mistake, in lower case with dashes: `resends-old-decision`.
impl fmt::Display for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let variant = match self {
            Self::Planted(bug) => format!("{bug:?}"),
            other => format!("{other:?}"),
        };
        let mut name = String::new();
        for c in variant.chars() {
            if c.is_uppercase() && !name.is_empty() {
                name.push('-');
            }
            name.extend(c.to_lowercase());
        }
        f.pad(&name)
    }
}

impl FromStr for Control {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|control| control.to_string() == name);
        found.ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(ToString::to_string).collect();
            format!("there is no control {name:?}; there are {}", names.join(", "))
        })
    }
}
