//! What a simulation must reach.

use std::collections::BTreeMap;

/// Replies, outcomes and events that enough seeds must reach.
const EXPECTED: &[&str] = &[];

/// Returns what these counts do not contain, and should.
pub fn never_reached(coverage: &BTreeMap<String, u64>) -> Vec<&'static str> {
    EXPECTED.iter().copied().filter(|expected| !coverage.contains_key(*expected)).collect()
}
