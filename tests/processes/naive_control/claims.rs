//! One claim per server and tick, and no scheduler around it.

use std::collections::BTreeMap;

use super::race;
use support::home::Kind;

pub fn a_claim_runs_each_of_200_ticks_once_with_clocks_10_ms_off(store: Kind) {
    let counted = race(&store.home(), "claim", 200, 10);
    println!("claim, ±10 ms: runs: ticks {counted:?}");
    assert_eq!(counted, BTreeMap::from([(1, 200)]));
}

pub fn a_claim_runs_each_tick_once_with_clocks_5_s_off(store: Kind) {
    let counted = race(&store.home(), "claim", 60, 5_000);
    println!("claim, ±5 s: runs: ticks {counted:?}");
    assert_eq!(counted, BTreeMap::from([(1, 60)]));
}
