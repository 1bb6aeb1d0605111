//! Redis as it is deployed: behind sentinels, as a cluster, with replicas. Masters are killed while jobs run.
//!
//! `JOBS_TEST_FAILOVERS=20 cargo test --test processes redis_topologies -- --nocapture` repeats each failover, and prints how
//! many ticks were started twice.
#![cfg(unix)]

mod cluster;
mod replicas;
mod sentinel;
mod urls;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use jobs::Timestamp;
use support::fleet::{Orders, Step, Worker, all_steps, first_start, wait_for};

/// How long a master is silent before it counts as dead. A busy machine is silent for a while, too.
const DEAD_AFTER: Duration = Duration::from_millis(1500);

fn serve(url: &str) -> Orders {
    Orders::role("serve").set("JOBS_URL", url)
}

fn failovers() -> usize {
    std::env::var("JOBS_TEST_FAILOVERS")
        .map_or(1, |count| count.parse().expect("JOBS_TEST_FAILOVERS is a number"))
}

/// How many ticks were started more than once.
fn double_starts(fleet: &[Worker]) -> usize {
    let mut starts = BTreeMap::<Timestamp, usize>::new();
    for start in all_steps(fleet, "start") {
        *starts.entry(start.tick).or_default() += 1;
    }
    starts.values().filter(|count| **count > 1).count()
}

/// A fleet whose runs take about a second and a half, one of them begun.
fn fleet_with_a_run(url: &str) -> (Vec<Worker>, Step) {
    let orders = serve(url).set("WORKER_EVERY", "1s").set("WORKER_TTL", 12_000).set("WORKER_STEPS", 15);
    let fleet = orders.start_fleet(3);
    let (winner, run) = first_start(&fleet);
    fleet[winner].wait_for("run step");
    (fleet, run)
}

/// The run that was interrupted ended under its own lease, and another began soon after the store was whole again; no
/// two at a time.
fn went_on(fleet: &[Worker], run: &Step, whole_since: Instant) {
    let ended = wait_for("the end of the run", || {
        all_steps(fleet, "end").into_iter().find(|end| end.fence == run.fence)
    });
    let whole = Timestamp::now() - whole_since.elapsed();
    let next = wait_for("another run", || {
        all_steps(fleet, "start").into_iter().find(|start| start.at > whole.max(ended.at))
    });
    let took = next.at.since(whole);
    println!("another run began {took:.1?} after the store was whole again");
    assert!(took < Duration::from_secs(10), "jobs went on only after {took:?}");
    let (starts, ends) = (all_steps(fleet, "start"), all_steps(fleet, "end"));
    assert!(starts.windows(2).all(|pair| pair[0].fence < pair[1].fence), "fences grow: {starts:#?}");
    for pair in starts.windows(2) {
        let end = ends.iter().find(|end| end.fence == pair[0].fence).expect("its end");
        assert!(end.at <= pair[1].at, "{pair:#?} overlap");
    }
}
