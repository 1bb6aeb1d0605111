//! Every swap that a store applied, chained by the versions of the record: no server changes the valid lease of another.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use jobs::Timestamp;
use jobs::store::{Lease, Swap, SwapReply, Version};
use jobs::testing::Hook;
use jobs::testing::check::{LeaseRef, Observation, Observed};
use serde::{Deserialize, Serialize};

use super::clock;
use super::history::{self, Journal};

/// A swap that was applied: the leases that the record held from then on.
#[derive(Serialize, Deserialize)]
struct AppliedSwap {
    at: u64,
    server: Arc<str>,
    key: Arc<str>,
    expected: Option<String>,
    version: String,
    held: Vec<HeldLease>,
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
struct HeldLease {
    token: Arc<str>,
    server: Arc<str>,
    fence: i64,
    until: Timestamp,
}

/// Writes a line for each swap that was applied.
pub struct SwapLog;

impl Hook for SwapLog {
    fn swapped(&self, key: &str, swap: &Swap, reply: &SwapReply) {
        let SwapReply::Swapped(swapped) = reply else { return };
        let state = swap.change.state.as_deref();
        let claimant = state.filter(|state| !state.released).and_then(|state| state.claimant.as_ref());
        let slots = state.iter().flat_map(|state| &state.slots);
        let lease = |lease: &Lease| HeldLease {
            token: lease.token.clone(),
            server: lease.server.clone(),
            // The newest lease has the record's fence.
            fence: if lease.fence == 0 { swapped.fence } else { lease.fence },
            until: lease.until,
        };
        let journal = Journal::get();
        journal.note_swap(&AppliedSwap {
            at: clock::steady(),
            server: journal.history.server().into(),
            key: key.into(),
            expected: swap.expected.map(|version| version.to_string()),
            version: swapped.version.to_string(),
            held: claimant.into_iter().chain(slots).map(lease).collect(),
        });
    }
}

/// Compares each swap with the one whose version it replaced, as far as both are known: those of an operator, and of a
/// server that was killed before it could write a line, are not.
pub fn overwritten(folder: &Path) -> Vec<Observation> {
    let swaps: Vec<AppliedSwap> = history::read_lines(folder, "swaps");
    let by_version: HashMap<_, _> =
        swaps.iter().map(|swap| ((&swap.key, swap.version.as_str()), swap)).collect();
    let mut found = Vec::new();
    for swap in &swaps {
        let Some(version) = swap.expected.as_deref() else { continue };
        let Some(replaced) = by_version.get(&(&swap.key, version)) else { continue };
        let now = swap.version.parse::<Version>().expect("a version").at;
        let is_own = |lease: &HeldLease| lease.server.starts_with(&format!("{}-", swap.server));
        let valid = replaced.held.iter().filter(|lease| lease.until > now && !is_own(lease));
        for lease in valid.filter(|lease| {
            !swap.held.iter().any(|kept| kept.token == lease.token && kept.until == lease.until)
        }) {
            let lease = LeaseRef { key: swap.key.clone(), fence: lease.fence };
            let what = Observed::Overwrote(lease);
            found.push(Observation { at: swap.at, server: swap.server.clone(), what });
        }
    }
    found
}

#[test]
fn swap_that_ends_the_valid_lease_of_another_server_is_noticed() {
    let folder = support::folder::TempFolder::new();
    let lease = |server: &str| HeldLease {
        token: server.into(),
        server: format!("{server}-7-f00").into(),
        fence: 1,
        until: Timestamp::from_micros(100),
    };
    let swap = |server: &str, (expected, version): (Option<&str>, &str), held| AppliedSwap {
        at: 7,
        server: server.into(),
        key: "job".into(),
        expected: expected.map(str::to_owned),
        version: version.to_owned(),
        held,
    };
    let (won, later, too_late) = ("10-000000000000000a", "50-000000000000000b", "200-000000000000000c");
    for (second, found) in [
        (swap("b", (Some(won), later), Vec::new()), 1),
        (swap("b", (Some(won), later), vec![lease("b")]), 1),
        (swap("b", (Some(won), later), vec![lease("a")]), 0),
        (swap("a", (Some(won), later), Vec::new()), 0),
        (swap("b", (Some(won), too_late), Vec::new()), 0),
    ] {
        let lines = [swap("a", (None, won), vec![lease("a")]), second];
        let lines = lines.map(|line| serde_json::to_string(&line).expect("plain data"));
        folder.put("all.swaps", &lines.join("\n"));
        assert_eq!(overwritten(folder.path()).len(), found, "{lines:?}");
    }
}
