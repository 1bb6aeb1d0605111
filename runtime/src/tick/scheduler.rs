//! The scheduler: fires each tick when it is due.

use std::sync::Arc;

use tokio::sync::mpsc::unbounded_channel;

use super::batch;
use super::timetable::Timetable;
use crate::job::Job;
use crate::server::{FailOnPanic, Server};
use crate::util::yield_to_ready_tasks;

/// Fires the jobs' ticks until no job has a further one.
pub(crate) async fn schedule(server: Arc<Server>, jobs: Vec<Arc<Job>>) {
    let _fail_on_panic = FailOnPanic(server.clone());
    // Subscribed before the timetable is made, so that no correction is missed.
    let mut corrections = server.time.corrections();
    let mut timetable = Timetable::new(jobs, server.time.now());
    let (not_due, mut fired_early) = unbounded_channel();
    while let Some(due) = timetable.next_due() {
        tokio::select! {
            biased;
            // First: a job that is due all the time must not keep another one from being planned again. Few
            // ticks are fired early, so that due ticks are not delayed.
            Some(index) = fired_early.recv() => {
                timetable.plan_again(index, server.time.now());
                continue;
            }
            on_time = server.time.sleep_until(due, &mut corrections) => if !on_time {
                timetable.plan_all_again(server.time.now());
                continue;
            },
        }
        // A server whose application is blocked leaves its ticks to other servers.
        server.application_answers().await;
        // After a pause of the whole process, runs that have lost their lease notice it before new ticks are
        // claimed.
        yield_to_ready_tasks().await;
        let now = server.time.now();
        let due = std::iter::from_fn(|| timetable.take_due(now)).collect();
        batch::fire(&server, due, &not_due);
        // What has started is watched before the next ticks are computed.
        yield_to_ready_tasks().await;
    }
    if !server.jobs.is_empty() {
        tracing::info!(target: "jobs", server = &*server.id, "no job has a further tick");
    }
}
