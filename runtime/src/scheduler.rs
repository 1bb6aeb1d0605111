//! Fires ticks when they are due.

use std::future::poll_fn;
use std::mem::replace;
use std::sync::Arc;
use std::task::Poll;

use tokio::sync::mpsc::unbounded_channel;

use crate::agenda::Agenda;
use crate::fired::Fired;
use crate::job::Job;
use crate::server::{NeverSilently, Server};
use crate::token::Tokens;

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
        // After a pause of the whole process: runs that have lost their lease find out before others are claimed.
        let_others_go_first().await;
        let now = server.time.now();
        let (mut fired, mut tokens) = (Fired::new(&server, &not_due), Tokens::default());
        while let Some(due) = agenda.take_due(now) {
            fired.claim(due, tokens.next());
        }
        fired.start();
    }
    if !server.jobs.is_empty() {
        tracing::info!(target: "jobs", server = &*server.id, "no job has a further tick");
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
