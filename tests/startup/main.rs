//! What a start refuses and reports, and how a server that cannot go on ends.
#![cfg(unix)]

use support::fleet::Orders;
use support::redis_server::RedisServer;
use support::worker;

mod connection_errors;
mod diagnosis;
mod never_silently;
mod notifications;
mod operator_calls;
mod start_errors;

/// Also where the worker processes begin.
#[test]
fn worker_process_runs_its_job() {
    if worker::begin() {
        return;
    }
    let redis = RedisServer::start();
    let server = Orders::serve(&redis).start();
    server.wait_for_log(&format!("store {}, from JOBS_URL", redis.url()));
    server.wait_for("run end");
}
