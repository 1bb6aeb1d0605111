//! Mistakes that the simulation must find.

use std::fmt;
use std::str::FromStr;

use crate::util::planted::PlantedBug;

/// A mistake that the simulation must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// A bug in this crate.
    Planted(PlantedBug),
}

impl Control {
    /// All controls.
    pub const ALL: [Self; 7] = [
        Self::Planted(PlantedBug::ResendsOldDecision),
        Self::Planted(PlantedBug::DeadlineFromArrival),
        Self::Planted(PlantedBug::ReleasesBeforeGone),
        Self::Planted(PlantedBug::PollsWithoutLease),
        Self::Planted(PlantedBug::ReleaseIgnoresToken),
        Self::Planted(PlantedBug::TakesOverTooSoon),
        Self::Planted(PlantedBug::StartsEarly),
    ];
}

/// The name of the mistake, in lower case with dashes: `resends-old-decision`.
impl fmt::Display for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Planted(bug) = self;
        let mut name = String::new();
        for c in format!("{bug:?}").chars() {
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
