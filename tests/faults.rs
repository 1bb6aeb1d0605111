//! What goes wrong in production, done to real processes and a real Redis server.
#![cfg(unix)]

use support::fleet::Orders;
use support::hand::Hand;
use support::redis_server::RedisServer;
use support::worker;

mod support;

#[path = "faults/blocking.rs"]
mod blocking;
#[path = "faults/log.rs"]
mod log;
#[path = "faults/neighbours.rs"]
mod neighbours;
#[path = "faults/processes.rs"]
mod processes;
#[path = "faults/redis.rs"]
mod redis;
#[path = "faults/redis_full.rs"]
mod redis_full;
#[path = "faults/shutdown.rs"]
mod shutdown;

/// Also where the worker processes begin.
#[test]
fn a_process_of_its_own_runs_the_job() {
    if worker::begin() {
        return;
    }
    let redis = RedisServer::start();
    let server = Orders::serve(&redis).start();
    let id = server.wait_for("ready");
    server.wait_for("run end");
    let run = &server.steps()[0];
    assert_eq!((&run.server, run.attempt), (&id, 1));
    support::fleet::wait_until("its record", || {
        Hand::on(&redis).history().runs.iter().any(|record| record.fence == run.fence)
    });
}
