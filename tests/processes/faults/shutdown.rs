//! Servers that are asked to stop.

use std::time::{Duration, Instant};

use jobs::history::RunOutcome;

use support::fleet::{Orders, wait_until};
use support::hand::Hand;
use support::home::{Home, Kind};

/// A worker that runs until SIGTERM, with a run of this many tenths of a second going on.
fn a_worker(home: &Home, steps: u32, grace_millis: u32) -> Orders {
    let orders = Orders::role("serve until signal").on(home);
    orders.set("WORKER_TTL", 20_000).set("WORKER_STEPS", steps).set("WORKER_SHUTDOWN_GRACE", grace_millis)
}

pub fn a_run_may_finish_within_the_shutdowns_grace(store: Kind) {
    let home = store.home();
    let mut server = a_worker(&home, 15, 15_000).start();
    server.wait_for("run step");
    server.signal("-TERM");
    assert!(server.exit(Duration::from_secs(19)).success());
    server.wait_for("run end");
    let hand = Hand::on(&home);
    assert_eq!(hand.history().runs[0].outcome, RunOutcome::Succeeded);
    assert_eq!(hand.lock(), None);
}

pub fn a_run_longer_than_the_shutdowns_grace_is_cancelled_recorded_and_released(store: Kind) {
    let home = store.home();
    let mut server = a_worker(&home, 600, 1000).start();
    server.wait_for("run step");
    let asked = Instant::now();
    server.signal("-TERM");
    assert!(server.exit(Duration::from_secs(5)).success());
    println!("gone {:?} after SIGTERM, with a grace of 1 s", asked.elapsed());
    let hand = Hand::on(&home);
    assert_eq!(hand.lock(), None, "the lock does not wait for its ttl");
    assert_eq!(hand.history().runs[0].outcome, RunOutcome::Cancelled);
    assert!(!server.steps().iter().any(|step| step.what == "end"));
}

pub fn a_dropped_handle_cancels_its_runs_and_warns(store: Kind) {
    let home = store.home();
    let hand = Hand::on(&home);
    let mut server = Orders::serve(&home).set("WORKER_TTL", 20_000).set("WORKER_STEPS", 600).start();
    server.wait_for("run step");
    server.order("drop");
    let warning = server.wait_for_log("dropped without `shutdown`");
    assert!(warning.starts_with("WARN"), "{warning}");
    wait_until("the release", || hand.lock().is_none());
    assert_eq!(hand.history().runs[0].outcome, RunOutcome::Cancelled);
}
