//! The scheduler: starts a task for each tick when it is due.

use std::sync::Arc;

use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::claim::batch::ClaimBatch;
use super::report;
use super::takeover;
use super::timetable::{DueTick, Timetable};
use super::{TickOutcome, run_tick};
use crate::job::Job;
use crate::server::{FailOnPanic, Server};
use crate::util::random;
use crate::util::yield_to_ready_tasks;

/// Fires the jobs' ticks until no job has a further one. Each tick is a task of its own.
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
        let mut due: Vec<_> = std::iter::from_fn(|| timetable.take_due(now)).collect();
        // In the same order, all servers would race for each tick.
        due.sort_by_cached_key(|_| random());
        let batch = ClaimBatch::new(server.claims_at_first);
        for due in due {
            server.spawn(fire(server.clone(), due, batch.clone(), not_due.clone()));
        }
        // A store in memory has decided all of them before their next ticks are computed.
        yield_to_ready_tasks().await;
    }
    if !server.jobs.is_empty() {
        tracing::info!(target: "jobs", server = &*server.id, "no job has a further tick");
    }
}

/// One tick: claims it in its turn, runs it, reports a skip, and waits to take it over if it may be unfinished.
async fn fire(server: Arc<Server>, due: DueTick, batch: ClaimBatch, not_due: UnboundedSender<usize>) {
    let _fail_on_panic = FailOnPanic(server.clone());
    let DueTick { index, job, claim } = due;
    let tick = claim.tick;
    // Boxed, since a spawned future is copied several times.
    let turn = batch.turn(claim.grace).await;
    let report = Box::pin(run_tick(&server, &job, claim, Some(turn))).await;
    match report.outcome {
        TickOutcome::Ran(_) => {}
        TickOutcome::Skipped(reason) => report::skipped(&server, &job, tick, reason),
        TickOutcome::NotDue => {
            let _scheduler_has_ended = not_due.send(index);
        }
    }
    if let Some(unfinished) = report.unfinished {
        Box::pin(takeover::wait(&server, &job, unfinished)).await;
    }
}
