//! Real processes whose times are measured: a program of its own, so that no other test runs beside them.
#![cfg(unix)]

use support::worker;

mod locks_under_load;
mod naive_control;

/// Also where the other processes begin.
#[test]
fn worker_process_runs_its_job() {
    if locks_under_load::process::begin() || worker::begin() {
        return;
    }
    locks_under_load::leftovers::a_process_that_keeps_its_lock_is_seen_to();
}
