//! What only Redis does: it forgets everything over a restart, and scripts by command.

use std::time::Duration;

use super::outages::{a_restart_mid_run, long_run, ran_once};
use support::hand::Hand;
use support::home::Home;
use support::redis_server::RedisServer;

#[test]
fn run_restores_its_lock_and_mark_in_a_redis_that_lost_everything() {
    a_restart_mid_run(Home::of(RedisServer::start()), true);
}

#[test]
fn a_script_flush_mid_run_goes_unnoticed() {
    // One that a start does not warn of.
    let redis = RedisServer::start_with(&["--appendonly", "yes"]);
    let hand = Hand::on(&redis);
    let (fleet, run) = long_run(&redis);
    let token = hand.lock();
    // What a start has to say of its store is none of the scripts'.
    let before: Vec<_> = fleet.iter().map(|worker| worker.log().len()).collect();
    // Often enough to hit scripts that were used before.
    for _ in 0..4 {
        hand.say::<()>("SCRIPT FLUSH");
        std::thread::sleep(Duration::from_millis(400));
        assert_eq!(hand.lock(), token);
    }
    ran_once(&hand, &fleet, &run);
    let complaints: Vec<_> = fleet
        .iter()
        .zip(before)
        .flat_map(|(worker, before)| worker.log().into_iter().skip(before))
        .filter(|line| !quiet(line))
        .collect();
    assert!(complaints.is_empty(), "{complaints:?}");
}

fn quiet(line: &str) -> bool {
    line.starts_with("INFO") || line.starts_with("DEBUG")
}
