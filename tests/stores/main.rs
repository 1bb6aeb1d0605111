//! What each store promises, on real servers: the contract that all of them keep, and what only one of them has.

use support::worker;

mod borrowed;
mod contract;
mod custom_store;
mod damaged;
mod dropped_conditions;
mod file_store;
mod format;
mod kit;
mod listening;
mod mysql;
mod postgres;
mod random_replay;
mod redis_interop;
mod redis_reconnect;
mod sqlite;
mod tls;

/// Also where the worker processes begin.
#[test]
fn worker_process_runs_its_job() {
    if worker::begin() {
        return;
    }
    tls::a_server_trusts_the_root_certificates_of_the_system();
}
