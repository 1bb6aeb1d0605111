//! Fires ticks when they are due.

use std::future::poll_fn;
use std::mem::replace;
use std::sync::Arc;
use std::task::Poll;

use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::report;
use super::takeover;
use super::timetable::{Agenda, Due};
use super::{Outcome, run_tick};
use crate::job::Job;
use crate::server::{FailOnPanic, Server};

/// Fires the jobs' ticks until the server stops. Runs go on beside it.
pub(crate) async fn schedule(server: Arc<Server>, jobs: Vec<Arc<Job>>) {
    let _fail_on_panic = FailOnPanic(server.clone());
    // Before the agenda is made: no correction may fall between.
    let mut corrections = server.time.corrections();
    let mut agenda = Agenda::new(jobs, server.time.now());
    let (not_due, mut fired_early) = unbounded_channel();
    while let Some(due) = agenda.next_due() {
        tokio::select! {
            on_time = server.time.sleep_until(due, &mut corrections) => if !on_time {
                agenda.plan_all_again(server.time.now());
                continue;
            },
            Some(index) = fired_early.recv() => {
                agenda.plan_again(index, server.time.now());
                continue;
            }
        }
        // A server whose application is blocked leaves its ticks to the others.
        server.application_answers().await;
        // After a pause of the whole process: runs that have lost their lease find out before others are claimed.
        let_others_go_first().await;
        let now = server.time.now();
        while let Some(due) = agenda.take_due(now) {
            server.spawn(fire(server.clone(), due, not_due.clone()));
        }
    }
    if !server.jobs.is_empty() {
        tracing::info!(target: "jobs", server = &*server.id, "no job has a further tick");
    }
}

/// A tick, from its claim to what follows from it.
async fn fire(server: Arc<Server>, due: Due, not_due: UnboundedSender<usize>) {
    let _fail_on_panic = FailOnPanic(server.clone());
    let Due { index, job, ask } = due;
    let (outcome, unfinished) = run_tick(&server, &job, ask).await;
    match outcome {
        Outcome::Ran(_) => {}
        Outcome::Skipped(reason) => report::skipped(&server, &job, ask.tick, reason),
        Outcome::NotDue => {
            let _scheduler_has_ended = not_due.send(index);
        }
    }
    if let Some(unfinished) = unfinished {
        takeover::wait(&server, &job, unfinished).await;
    }
}

/// Goes to the end of the queue of tasks that are ready. (`yield_now` turns the order of those who wait with it around.)
async fn let_others_go_first() {
    let mut gone = false;
    poll_fn(|polling| {
        if replace(&mut gone, true) {
            return Poll::Ready(());
        }
        polling.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
