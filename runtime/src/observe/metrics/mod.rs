//! Metrics: the names, labels and units of all of them, by the facade `metrics`.
//!
//! Handles are created when a server starts, for the recorder that is installed then, and are kept: a tick looks up no
//! metric by its name. The key of a job is a label, the key of a lock never is: there is no limit to their number.

use std::time::Duration;

use metrics::{
    Gauge, Histogram, Unit, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};

use crate::Timestamp;
use crate::server::Server;
use crate::store::step;

mod job;
#[cfg(test)]
mod tests;
mod tick_result;

pub(crate) use job::JobMetrics;

/// The names of the metrics.
mod name {
    pub(super) const TICKS: &str = "jobs_ticks_total";
    pub(super) const RUN_DURATION: &str = "jobs_run_duration_seconds";
    pub(super) const START_DELAY: &str = "jobs_start_delay_seconds";
    pub(super) const RUNNING: &str = "jobs_running";
    pub(super) const LAST_SUCCESS: &str = "jobs_last_success_timestamp_seconds";
    pub(super) const NEXT_TICK: &str = "jobs_next_tick_timestamp_seconds";
    pub(super) const OVERDUE: &str = "jobs_overdue";
    pub(super) const PAUSED: &str = "jobs_paused";
    pub(super) const LEASE_LOST: &str = "jobs_lease_lost_total";
    pub(super) const STORE: &str = "jobs_store_seconds";
    pub(super) const CLOCK_OFFSET: &str = "jobs_clock_offset_seconds";
}

/// The names of the labels.
mod label {
    /// The key of a job. Not `job`: Prometheus names the scraped target so.
    pub(super) const JOB_NAME: &str = "job_name";
    pub(super) const RESULT: &str = "result";
    pub(super) const OUTCOME: &str = "outcome";
    pub(super) const OPERATION: &str = "operation";
}

/// Describes every metric to the recorder.
fn describe() {
    describe_counter!(name::TICKS, Unit::Count, "Ticks by their result on this server.");
    describe_histogram!(
        name::RUN_DURATION,
        Unit::Seconds,
        "Time from claim to end of the runs on this server, manual runs included."
    );
    describe_histogram!(
        name::START_DELAY,
        Unit::Seconds,
        "Time from the instant at which a tick is due, its jitter included, to the call of the function. Takeovers are \
         left out."
    );
    describe_gauge!(name::RUNNING, Unit::Count, "Runs in progress on this server.");
    describe_gauge!(
        name::LAST_SUCCESS,
        Unit::Seconds,
        "End of the last successful run on this server. Absent until there is one."
    );
    describe_gauge!(
        name::NEXT_TICK,
        Unit::Seconds,
        "The next tick that this server will claim. 0 if there is none, or if it claims no more."
    );
    describe_gauge!(
        name::OVERDUE,
        Unit::Count,
        "1 from a tick that was not started within its grace, as far as this server knows, until it learns that a later \
         one was started or skipped by a pause."
    );
    describe_gauge!(
        name::PAUSED,
        Unit::Count,
        "Whether the job was paused at the last tick that this server claimed and the store decided."
    );
    describe_counter!(
        name::LEASE_LOST,
        Unit::Count,
        "Runs on this server whose lease could no longer be proved."
    );
    describe_histogram!(
        name::STORE,
        Unit::Seconds,
        "Time until the store answered one request, or until it timed out."
    );
    describe_gauge!(
        name::CLOCK_OFFSET,
        Unit::Seconds,
        "How far this machine's clock is ahead of the store's, at the last heartbeat."
    );
}

/// The metrics of a server itself. The frequent operations have a handle each.
pub(crate) struct ServerMetrics {
    claim: Histogram,
    extend: Histogram,
    release: Histogram,
    clock_offset: Gauge,
}

impl ServerMetrics {
    /// Creates the handles, and describes every metric.
    pub(crate) fn new() -> Self {
        describe();
        Self {
            claim: store_seconds(step::CLAIM),
            extend: store_seconds(step::EXTEND),
            release: store_seconds(step::RELEASE),
            clock_offset: gauge!(name::CLOCK_OFFSET),
        }
    }

    /// Records the time of one request to the store.
    pub(crate) fn store_request(&self, operation: &'static str, took: Duration) {
        match operation {
            step::CLAIM => self.claim.record(took),
            step::EXTEND => self.extend.record(took),
            step::RELEASE => self.release.record(took),
            rare => store_seconds(rare).record(took),
        }
    }

    /// Sets how far this machine's clock is ahead of the store's.
    pub(crate) fn clock_ahead(&self, micros: i64) {
        self.clock_offset.set(seconds(micros));
    }
}

fn store_seconds(operation: &'static str) -> Histogram {
    histogram!(name::STORE, label::OPERATION => operation)
}

/// Sets the next tick of every job to none: the server claims no more.
pub(crate) fn no_further_ticks(server: &Server) {
    server.jobs.values().for_each(|job| job.metrics().next_tick(None));
}

fn unix_seconds(time: Timestamp) -> f64 {
    seconds(time.as_micros())
}

#[allow(clippy::cast_precision_loss, reason = "exact to the microsecond until the year 2255")]
fn seconds(micros: i64) -> f64 {
    micros as f64 / 1e6
}
