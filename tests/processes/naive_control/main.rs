//! The measurement behind the crate: eight processes whose clocks differ ask for the same ticks of a short
//! job. The plain lock runs many of them again and again; a claim per tick runs each once.
#![cfg(unix)]

use std::collections::BTreeMap;
use std::time::Duration;

use jobs::Timestamp;
use support::fleet::Orders;
use support::home::{Home, Kind};
use support::worker;

mod claims;
mod schedulers;

support::promises! {
    EVERYWHERE {
        schedulers::a_few_schedulers_run_each_tick_once_with_clocks_5_s_off;
    }
    EVERYWHERE_AT_LENGTH {
        claims::a_claim_runs_each_of_200_ticks_once_with_clocks_10_ms_off;
        claims::a_claim_runs_each_tick_once_with_clocks_5_s_off;
    }
    ON_REDIS {
        schedulers::schedulers_run_each_of_200_ticks_once_with_clocks_10_ms_off;
        schedulers::schedulers_run_each_tick_once_with_clocks_5_s_off;
    }
}

const SERVERS: i64 = 8;

/// Also where the worker processes begin.
#[test]
fn worker_process_runs_its_job() {
    if worker::begin() {
        return;
    }
    assert_eq!(
        race(&Kind::Redis.home(), "claim", 10, 0),
        BTreeMap::from([(1, 10)]),
        "alike clocks, and nothing to lose"
    );
}

/// The servers' clocks, spread evenly from this much slow to this much fast.
fn skews(servers: i64, most_millis: i64) -> impl Iterator<Item = i64> {
    (0..servers).map(move |index| most_millis * (2 * index - (servers - 1)) / (servers - 1))
}

/// How many ticks ran how often.
fn how_often(runs: impl Iterator<Item = i64>) -> BTreeMap<u32, u32> {
    let mut runs_of: BTreeMap<i64, u32> = BTreeMap::new();
    for tick in runs {
        *runs_of.entry(tick).or_default() += 1;
    }
    let mut ticks_with = BTreeMap::new();
    for runs in runs_of.into_values() {
        *ticks_with.entry(runs).or_default() += 1;
    }
    ticks_with
}

fn total(how_often: &BTreeMap<u32, u32>) -> u32 {
    how_often.iter().map(|(runs, ticks)| runs * ticks).sum()
}

/// Every server asks for every tick, at the tick plus its skew.
fn race(home: &Home, way: &str, ticks: u32, skew: i64) -> BTreeMap<u32, u32> {
    let orders = Orders::role(way).on(home).set("WORKER_THREADS", 1);
    let orders = orders.set("WORKER_TICKS", ticks).set("WORKER_GAP", 25);
    let mut racers: Vec<_> =
        skews(SERVERS, skew).map(|skew| orders.clone().set("WORKER_SKEW", skew).start()).collect();
    for racer in &racers {
        racer.wait_for("ready");
    }
    let lead = Duration::from_millis(100 + skew.unsigned_abs());
    let first = (Timestamp::now() + lead).as_micros().to_string();
    for racer in &mut racers {
        racer.order(&first);
    }
    let told: Vec<_> = racers.iter().map(|racer| racer.wait_for("ran")).collect();
    how_often(told.iter().flat_map(|ran| ran.split_whitespace()).map(|tick| tick.parse().expect("a tick")))
}

#[test]
fn plain_lock_runs_a_short_job_several_times_per_tick() {
    let counted = race(&Kind::Redis.home(), "naive", 200, 10);
    println!("plain lock, ±10 ms: 200 ticks, {} runs; runs: ticks {counted:?}", total(&counted));
    assert!(total(&counted) > 200, "the control shows no harm, so the tests beside it prove nothing");
}
