//! Jobs that block their thread, as jobs should not.

use std::time::Duration;

use jobs::Timestamp;
use jobs::history::RunOutcome;

use support::fleet::{Orders, all_steps, first_start, wait_for, wait_until};
use support::hand::Hand;
use support::home::Kind;

pub fn a_job_that_blocks_the_only_thread_keeps_its_lease(store: Kind) {
    let home = store.home();
    let orders = Orders::serve(&home).set("WORKER_THREADS", 1).set("WORKER_TTL", 1000);
    let fleet = orders.set("WORKER_BLOCK", 3000).start_fleet(2);
    let (_, run) = first_start(&fleet);
    let end = wait_for("its end", || all_steps(&fleet, "end").into_iter().next());
    assert_eq!(end.fence, run.fence);
    let meanwhile: Vec<_> = all_steps(&fleet, "start").into_iter().filter(|step| step.at < end.at).collect();
    assert_eq!(meanwhile.len(), 1, "{meanwhile:?}");
    let record = wait_for("its record", || {
        Hand::on(&home).history().runs.into_iter().find(|record| record.fence == run.fence)
    });
    assert_eq!(record.outcome, RunOutcome::Succeeded);
}

pub fn a_job_that_blocks_past_a_shutdown_is_released_only_when_it_ends(store: Kind) {
    let home = store.home();
    let hand = Hand::on(&home);
    let orders = Orders::serve(&home).set("WORKER_TTL", 1000).set("WORKER_SHUTDOWN_GRACE", 300);
    let mut server = orders.set("WORKER_BLOCK", 7000).start();
    server.wait_for("run start");
    let token = hand.lock().expect("its lock");
    server.order("shutdown");
    server.wait_for("down");
    let ended = || server.steps().iter().any(|step| step.what == "end");
    assert_eq!(hand.lock(), Some(token), "still held");
    assert!(!ended(), "it blocks on");
    let warning = server.wait_for_log("these runs block and cannot be cancelled");
    assert!(warning.starts_with("WARN") && warning.contains("import"), "{warning}");

    wait_until("its release", || hand.lock().is_none());
    let released = Timestamp::now();
    let end = wait_for("its end", || server.steps().into_iter().find(|step| step.what == "end"));
    assert!(end.at <= released, "held until it ended: {end:?}, and free at {released}");
}

/// The application has one thread, and it hangs.
pub fn server_whose_application_hangs_leaves_every_tick_to_the_other(store: Kind) {
    const SECOND: i64 = 1_000_000;
    let home = store.home();
    let orders = Orders::serve(&home).set("WORKER_THREADS", 1).set("WORKER_EVERY", "1s");
    let mut fleet = orders.set("WORKER_TTL", 3000).start_fleet(2);
    first_start(&fleet);
    let blocked = Timestamp::now();
    fleet[0].order("block 12000");
    let health = fleet[0].wait_for("blocked");
    fleet[0].wait_for("unblocked");
    assert!(health.starts_with("ApplicationBlocked"), "not ready: {health}");
    fleet[0].wait_for_log("application");

    // What it had won when it was blocked is given back after a third of the ttl.
    let first = (blocked + Duration::from_secs(3)).as_micros() / SECOND;
    let last = (blocked + Duration::from_secs(11)).as_micros() / SECOND;
    let ticks = |worker: usize| {
        let starts = fleet[worker].steps().into_iter().filter(|step| step.what == "start");
        let ticks = starts.map(|step| step.tick.as_micros() / SECOND);
        ticks.filter(|tick| (first..=last).contains(tick)).collect::<Vec<_>>()
    };
    assert_eq!(ticks(0), [0_i64; 0], "the hung server started nothing");
    assert_eq!(ticks(1), (first..=last).collect::<Vec<_>>(), "and the other one every tick");

    wait_until("a run on the server that is back", || {
        fleet[0].steps().iter().any(|step| step.what == "start" && step.tick.as_micros() / SECOND > last)
    });
}
