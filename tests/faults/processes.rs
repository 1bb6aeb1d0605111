//! Processes that die or stand still while they hold the lease.

use std::time::Duration;

use jobs::RunOutcome;

use crate::support::fleet::{Orders, Worker, all_steps, first_start, wait_for, wait_until};
use crate::support::hand::Hand;
use crate::support::redis_server::RedisServer;

/// Every second, for ten seconds unless something happens.
fn long_runs(redis: &RedisServer) -> Orders {
    Orders::serve(redis).set("WORKER_EVERY", "1s").set("WORKER_TTL", 1500).set("WORKER_STEPS", 100)
}

#[test]
fn a_killed_winners_tick_is_over_and_the_next_after_its_ttl_runs_elsewhere() {
    let redis = RedisServer::start();
    let mut fleet = long_runs(&redis).start_fleet(3);
    let (winner, killed) = first_start(&fleet);
    fleet[winner].wait_for("run step");
    fleet[winner].kill();

    let next = wait_for("a run after the crash", || all_steps(&fleet, "start").into_iter().nth(1));
    assert_ne!(next.server, killed.server);
    assert!(next.tick > killed.tick && next.fence > killed.fence, "{killed:?} then {next:?}");
    assert_eq!(next.attempt, 1, "a tick of its own, not a takeover");
    let history = Hand::on(&redis).history();
    let record = history.runs.iter().find(|run| run.fence == killed.fence).expect("the killed run");
    assert_eq!((record.outcome, record.tick), (RunOutcome::Crashed, Some(killed.tick)));
}

/// Stops the first winner until another server runs a later tick, then wakes it up. Returns who it was, and
/// how much it had told when it was woken.
fn stop_past_the_lease(hand: &Hand, fleet: &[Worker]) -> (usize, usize) {
    let (stopped, overtaken) = first_start(fleet);
    // Right after a step the job waits for its next one: it is not stopped in the middle of a step.
    fleet[stopped].wait_for("run step");
    fleet[stopped].signal("-STOP");
    let successor = wait_for("a successor", || all_steps(fleet, "start").into_iter().nth(1));
    assert!(successor.tick > overtaken.tick && successor.fence > overtaken.fence);
    assert_ne!(successor.server, overtaken.server);
    wait_until("the successor's first step", || {
        all_steps(fleet, "step").iter().any(|step| step.fence == successor.fence)
    });

    let token = hand.lock().expect("the successor holds the lock");
    let told = fleet[stopped].steps().len();
    fleet[stopped].signal("-CONT");
    fleet[stopped].wait_for_log("lease had ended before it was released");
    assert_eq!(hand.lock().as_ref(), Some(&token), "the stale release left the successor's lock alone");
    (stopped, told)
}

#[test]
fn a_winner_that_was_stopped_past_its_lease_takes_not_one_step_more() {
    let redis = RedisServer::start();
    let fleet = long_runs(&redis).start_fleet(2);
    let hand = Hand::on(&redis);
    let (stopped, told) = stop_past_the_lease(&hand, &fleet);

    fleet[stopped].wait_for_log("outcome=\"lease_lost\"");
    std::thread::sleep(Duration::from_millis(500));
    let after = &fleet[stopped].steps()[told..];
    assert!(after.is_empty(), "{after:?}");
}

/// The control of the test above, and what fences are for.
#[test]
fn a_winner_that_goes_on_past_its_lease_does_harm_wherever_its_fence_is_not_compared() {
    let redis = RedisServer::start();
    let orders = long_runs(&redis).set("WORKER_ON_LOST", "continue").set("WORKER_WRITES", 1);
    let fleet = orders.set("WORKER_STEPS", 40).start_fleet(2);
    let (stopped, told) = stop_past_the_lease(&Hand::on(&redis), &fleet);

    let after = fleet[stopped].steps().split_off(told);
    let stale: Vec<_> = after.iter().filter(|step| step.what == "step").collect();
    assert!(!stale.is_empty(), "it went on");
    let refused = stale.iter().filter(|step| step.note.contains("fenced refused")).count();
    assert_eq!(refused, stale.len(), "{stale:?}");
    let spoilt = stale.iter().filter(|step| step.note.contains("overwrote its successor")).count();
    println!(
        "of {} writes after the lease was lost, {refused} with a fence were refused and {spoilt} without one went through",
        stale.len()
    );
    assert!(spoilt > 0, "{stale:?}");
}
