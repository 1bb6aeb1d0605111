//! A tick that is due while the last run goes on.

use support::fleet::{Orders, Step, all_steps, wait_until};
use support::home::Kind;

/// Every second, for one and a half: each run outlasts the next tick.
fn runs(store: Kind, overlap: &str) -> Vec<(Step, Step)> {
    let home = store.home();
    let orders = Orders::serve(&home).set("WORKER_EVERY", "1s").set("WORKER_TTL", 5000);
    let fleet = orders.set("WORKER_STEPS", 15).set("WORKER_OVERLAP", overlap).start_fleet(3);
    wait_until("five runs", || all_steps(&fleet, "end").len() >= 5);
    let ends = all_steps(&fleet, "end");
    let starts = all_steps(&fleet, "start").into_iter();
    let mut runs: Vec<_> = starts
        .filter_map(|start| {
            let end = ends.iter().find(|end| end.fence == start.fence)?.clone();
            Some((start, end))
        })
        .collect();
    runs.sort_by_key(|(start, _)| start.fence);
    for pair in runs.windows(2) {
        assert!(pair[1].0.at >= pair[0].1.at, "two at once: {pair:?}");
        assert!(pair[1].0.tick > pair[0].0.tick, "one tick twice: {pair:?}");
    }
    runs
}

pub fn a_queued_tick_starts_when_the_long_run_before_it_ends(store: Kind) {
    let runs = runs(store, "queue");
    let waits = runs.windows(2).map(|pair| pair[1].0.at.since(pair[0].1.at).as_millis());
    let waits: Vec<_> = waits.collect();
    println!("milliseconds from the end of a run to the start of the next: {waits:?}");
    // The lease lasts five seconds: whoever waited for its end would be seen here.
    let at_once = waits.iter().filter(|wait| **wait < 400).count();
    assert!(at_once * 2 > waits.len(), "{waits:?}");
    assert!(runs.iter().any(|(start, _)| start.at.since(start.tick).as_millis() > 300), "none was queued");
}

/// The control: without the queue a run starts only at a tick.
pub fn a_skipped_tick_does_not_start_when_the_long_run_before_it_ends(store: Kind) {
    let late =
        runs(store, "skip").into_iter().filter(|(start, _)| start.at.since(start.tick).as_millis() > 300);
    assert_eq!(late.count(), 0);
}
