//! Fires ticks when they are due.

use std::sync::Arc;

use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::agenda::{Agenda, Due};
use crate::job::Job;
use crate::report;
use crate::server::{NeverSilently, Server};
use crate::takeover;
use crate::tick::{self, Outcome};

/// Fires the jobs' ticks until the server stops. Runs go on beside it.
pub(crate) async fn schedule(server: Arc<Server>, jobs: Vec<Arc<Job>>) {
    let _never_silently = NeverSilently(server.clone());
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
        let now = server.time.now();
        while let Some(due) = agenda.pop_due(now) {
            fire(&server, &not_due, due);
        }
    }
    if !server.jobs.is_empty() {
        tracing::info!(target: "jobs", server = server.id, "no job has a further tick");
    }
}

fn fire(server: &Arc<Server>, not_due: &UnboundedSender<usize>, due: Due) {
    let (server, not_due) = (server.clone(), not_due.clone());
    server.clone().spawn(async move {
        let _never_silently = NeverSilently(server.clone());
        let Due { index, job, ask } = due;
        let (outcome, unfinished) = tick::run(&server, &job, ask).await;
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
    });
}
