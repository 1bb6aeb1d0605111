//! Fleets on the paused clock, whose servers are there for their locks.

use std::time::Duration;

use jobs::Job;
use jobs::testing::{Fleet, FleetBuilder};

pub fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

pub fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Servers that have a job, because a fleet needs one, which runs only by hand.
pub fn servers(count: usize) -> FleetBuilder {
    Fleet::of(count).job(|| Job::builder("idle").run(|_| async {}).build().unwrap())
}

pub async fn fleet(count: usize) -> Fleet {
    servers(count).start().await.unwrap()
}
