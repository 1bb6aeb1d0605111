//! Fires ticks when they are due.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::agenda::{Agenda, Due};
use crate::job::Job;
use crate::report;
use crate::server::{NeverSilently, Server};
use crate::tick::{self, TickOutcome};

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
    tracing::info!(target: "jobs", server = server.id, "no job has a further tick");
}

fn fire(server: &Arc<Server>, not_due: &UnboundedSender<usize>, due: Due) {
    if let Some(seen) = due.missed_after {
        report::missed(server, &due.job, seen, due.ask.tick);
    }
    let (server, not_due, tick) = (server.clone(), not_due.clone(), due.ask.tick);
    server.clone().ticks.spawn(async move {
        let _never_silently = NeverSilently(server.clone());
        let outcome = tick::run(&server, &due.job, due.ask).await;
        if matches!(outcome, TickOutcome::NotDue) {
            let _scheduler_has_ended = not_due.send(due.index);
        }
        report::tick(&server, &due.job, tick, &outcome);
    });
}

/// How often the machine's two clocks are compared, and the store is asked for its time.
const COMPARE: Duration = Duration::from_secs(5);
const ASK: Duration = Duration::from_secs(60);
const SUSPICIOUS: Duration = Duration::from_millis(250);

/// Notices that the machine was suspended or its clock was set, and asks the store what time it is.
pub(crate) async fn watch_clock(server: Arc<Server>) {
    let _never_silently = NeverSilently(server.clone());
    let mut seen = server.time.moment();
    let mut asked = seen.steady;
    let mut jumped = false;
    loop {
        tokio::time::sleep(COMPARE).await;
        let now = server.time.moment();
        let (steady, shown) = (now.steady.duration_since(seen.steady), now.wall.since(seen.wall));
        jumped |= shown.abs_diff(steady) > SUSPICIOUS || now.wall < seen.wall;
        seen = now;
        if jumped || asked.elapsed() >= ASK {
            asked = now.steady;
            // A failure is noted in the server's health; after a jump the next round asks again.
            let answer = server.ask("ping", Duration::from_secs(2), server.store.ping()).await;
            if jumped && answer.is_ok() {
                jumped = false;
                server.time.wake_sleepers();
            }
        }
    }
}
