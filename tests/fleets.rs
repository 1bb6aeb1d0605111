//! The policies that cross processes: real servers on a real Redis, killed, deployed and operated.
#![cfg(unix)]

use support::fleet::Orders;
use support::redis_server::RedisServer;
use support::worker;

mod support;

#[path = "fleets/by_hand.rs"]
mod by_hand;
#[path = "fleets/missed.rs"]
mod missed;
#[path = "fleets/overlap.rs"]
mod overlap;
#[path = "fleets/records.rs"]
mod records;
#[path = "fleets/round_trips.rs"]
mod round_trips;
#[path = "fleets/takeovers.rs"]
mod takeovers;

/// Also where the worker processes begin.
#[test]
fn a_process_of_its_own_runs_the_job() {
    if worker::begin() {
        return;
    }
    let redis = RedisServer::start();
    let fleet = Orders::serve(&redis).start_fleet(2);
    support::fleet::first_start(&fleet);
}
