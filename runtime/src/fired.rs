//! Ticks that are due together: first they are claimed and started, then everything else is done for them.

use std::future::ready;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tokio::sync::mpsc::UnboundedSender;
use tokio::task::yield_now;

use crate::agenda::Due;
use crate::claim::{Claimed, NotWon, claim_tick};
use crate::report;
use crate::server::{NeverSilently, Server};
use crate::takeover;
use crate::tick::{self, Outcome, Started};

/// So many ticks are claimed before the first of them is started. With fewer, the application's runtime falls asleep in
/// between and is woken for every run; with more, the first waits longer for the last.
const TOGETHER: usize = 256;

/// Ticks on their way, each as far as it gets without waiting. When this is dropped each becomes a task of its own,
/// even if a defect ends the scheduler meanwhile.
pub(crate) struct Fired<'a> {
    server: &'a Arc<Server>,
    not_due: &'a UnboundedSender<usize>,
    claimed: Vec<(Due, Claimed)>,
    started: Vec<(Due, Result<Started, NotWon>)>,
}

impl<'a> Fired<'a> {
    pub(crate) fn new(server: &'a Arc<Server>, not_due: &'a UnboundedSender<usize>) -> Self {
        Self { server, not_due, claimed: Vec::with_capacity(TOGETHER), started: Vec::new() }
    }

    /// Claims a tick. A store that does not answer at once is waited for in a task.
    pub(crate) fn claim(&mut self, due: Due, token: String) {
        let (server, job) = (self.server.clone(), due.job.clone());
        let mut claim = Box::pin(claim_tick(server.clone(), job.clone(), due.ask, token));
        // Nobody need wake it: if it is not done, it becomes a task, and goes on there.
        match claim.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(claimed) => self.claimed.push((due, claimed)),
            Poll::Pending => {
                self.finish(due, async move {
                    let started = claim.await.map(|win| tick::start(&server, &job, win));
                    yield_now().await; // the answers for others may be there, too
                    started
                });
            }
        }
        if self.claimed.len() == TOGETHER {
            self.start();
        }
    }

    /// Starts what was won.
    pub(crate) fn start(&mut self) {
        while let Some((due, claimed)) = self.claimed.pop() {
            let started = claimed.map(|win| tick::start(self.server, &due.job, win));
            self.started.push((due, started));
        }
    }

    fn finish(&self, due: Due, started: impl Future<Output = Result<Started, NotWon>> + Send + 'static) {
        let (server, not_due) = (self.server.clone(), self.not_due.clone());
        self.server.spawn(async move {
            let _never_silently = NeverSilently(server.clone());
            let Due { index, job, ask } = due;
            let (outcome, unfinished) = tick::finish(&server, &job, ask, started.await).await;
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
}

impl Drop for Fired<'_> {
    fn drop(&mut self) {
        for (due, claimed) in std::mem::take(&mut self.claimed) {
            let (server, job) = (self.server.clone(), due.job.clone());
            self.finish(due, async move { claimed.map(|win| tick::start(&server, &job, win)) });
        }
        for (due, started) in std::mem::take(&mut self.started) {
            self.finish(due, ready(started));
        }
    }
}
