//! A simulation of a fleet under faults, in virtual time: one seed is one history.
//!
//! [`Plan::draw`] draws servers, jobs, locks and faults from a seed, [`simulate`] executes the plan with the scheduler, leases
//! and locks of this crate, and [`check`](super::check) decides whether the promise was kept. The example `simulate` runs
//! thousands of seeds.

mod controls;
mod coverage;
pub(super) mod draw;
mod execute;
pub(super) mod faults;
mod observed_store;
mod plan;
pub(super) mod recorder;
mod shrink;
#[cfg(test)]
mod tests;
mod workload;

pub use crate::util::planted::PlantedBug;
pub use controls::{Control, seeds_to_find};
pub use coverage::never_reached;
pub use execute::{Simulated, simulate};
pub use plan::{Plan, StoreLosses};
pub use shrink::shrink;
