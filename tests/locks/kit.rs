//! Fleets on the paused clock whose servers only use locks.

use std::time::Duration;

use jobs::Job;
use jobs::testing::{Fleet, FleetBuilder};

pub fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

pub fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Servers with a job that never runs by itself, because a fleet needs a job.
pub fn servers(count: usize) -> FleetBuilder {
    Fleet::of(count).job(|| Job::builder("idle").run(|_| async {}).build().unwrap())
}

pub async fn fleet(count: usize) -> Fleet {
    servers(count).start().await.unwrap()
}
