//! Real processes on real stores: killed, stopped, cut off, deployed and operated.
#![cfg(unix)]

use support::fleet::Orders;
use support::redis_server::RedisServer;
use support::worker;

mod broken_connections;
mod faults;
mod file_store;
mod fleets;
mod redis_topologies;
mod sqlite_store;
mod web_service;

/// Also where the worker processes begin.
#[test]
fn worker_process_runs_its_job() {
    if web_service::begin() || worker::begin() {
        return;
    }
    let redis = RedisServer::start();
    let server = Orders::serve(&redis).start();
    server.wait_for("run end");
}
