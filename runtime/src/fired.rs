//! Ticks that are due together: first they are claimed and started, then everything else is done for them.

use std::future::ready;
use std::mem::{replace, take};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::sync::mpsc::UnboundedSender;
use tokio::task::{JoinHandle, yield_now};

use crate::agenda::Due;
use crate::claim::{Claimed, claim_tick};
use crate::report;
use crate::server::{NeverSilently, Server};
use crate::takeover;
use crate::tick::{self, Begun, FirstTry, Outcome, Startable, Started};

/// So many ticks are claimed before the first of them starts. Woken for every single one, the application's runtime would
/// fall asleep again in between; and the first waits half a millisecond for the last.
const TOGETHER: usize = 256;

/// Ticks on their way, each as far as it gets without waiting. When this is dropped each becomes a task of its own,
/// even if a defect ends the scheduler meanwhile.
pub(crate) struct Fired<'a> {
    server: &'a Arc<Server>,
    not_due: &'a UnboundedSender<usize>,
    claimed: Vec<(Due, Claimed)>,
    handed_over: Vec<Group>,
    begun: Vec<(Due, Begun)>,
}

impl<'a> Fired<'a> {
    pub(crate) fn new(server: &'a Arc<Server>, not_due: &'a UnboundedSender<usize>) -> Self {
        Self { server, not_due, claimed: Vec::new(), handed_over: Vec::new(), begun: Vec::new() }
    }

    /// Claims a tick. A store that does not answer at once is waited for in a task.
    pub(crate) fn claim(&mut self, due: Due, token: Arc<str>) {
        let mut claim = Box::pin(claim_tick(self.server.clone(), due.job.clone(), due.ask, token));
        // Nobody need wake it: if it is not done, it becomes a task, and goes on there.
        match claim.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(claimed) => self.claimed.push((due, claimed)),
            Poll::Pending => {
                let (server, job) = (self.server.clone(), due.job.clone());
                self.finish(due, async move {
                    let begun = claim.await.map(|win| tick::start(&server, &job, win));
                    yield_now().await; // the answers for others may be there, too
                    begun
                });
            }
        }
        if self.claimed.len() == TOGETHER {
            let claimed = replace(&mut self.claimed, Vec::with_capacity(TOGETHER));
            self.handed_over.push(Group::hand_over(self.server, claimed));
        }
    }

    /// Starts what was won and was not handed over.
    pub(crate) fn start(&mut self) {
        for (due, claimed) in take(&mut self.claimed) {
            let begun = claimed.map(|win| tick::start(self.server, &due.job, win));
            self.begun.push((due, begun));
        }
    }

    fn finish(&self, due: Due, begun: impl Future<Output = Begun> + Send + 'static) {
        finish(self.server, self.not_due, due, begun);
    }
}

impl Drop for Fired<'_> {
    fn drop(&mut self) {
        for group in take(&mut self.handed_over) {
            let (server, not_due) = (self.server.clone(), self.not_due.clone());
            self.server.spawn(async move {
                let _never_silently = NeverSilently(server.clone());
                for (due, begun) in group.begun(&server).await {
                    finish(&server, &not_due, due, ready(begun));
                }
            });
        }
        for (due, claimed) in take(&mut self.claimed) {
            let (server, job) = (self.server.clone(), due.job.clone());
            self.finish(due, async move { claimed.map(|win| tick::start(&server, &job, win)) });
        }
        for (due, begun) in take(&mut self.begun) {
            self.finish(due, ready(begun));
        }
    }
}

/// Ticks that the application's runtime starts, while the scheduler claims the next ones. If it is blocked, the scheduler
/// does it after all, since the leases have to be watched over.
struct Group {
    claimed: Vec<(Due, Claimed)>,
    won: Arc<Mutex<Option<Vec<Startable>>>>,
    starting: JoinHandle<Option<Vec<FirstTry>>>,
}

impl Group {
    fn hand_over(server: &Arc<Server>, claimed: Vec<(Due, Claimed)>) -> Self {
        let wins = claimed.iter().filter_map(|(due, claimed)| Some((&due.job, claimed.as_ref().ok()?)));
        let won = wins.map(|(job, win)| Startable::new(job, win)).collect();
        let won = Arc::new(Mutex::new(Some(won)));
        let (app, theirs) = (server.clone(), won.clone());
        let starting = server.app.spawn(async move {
            let _never_silently = NeverSilently(app.clone());
            start_unless_started(&app, &theirs)
        });
        Self { claimed, won, starting }
    }

    async fn begun(self, server: &Arc<Server>) -> impl Iterator<Item = (Due, Begun)> {
        let first_tries = match start_unless_started(server, &self.won) {
            Some(first_tries) => first_tries,
            None => self.starting.await.ok().flatten().unwrap_or_default(),
        };
        let mut first_tries = first_tries.into_iter();
        self.claimed.into_iter().filter_map(move |(due, claimed)| match claimed {
            Ok(win) => Some((due, Ok(Started { win, first_try: first_tries.next()? }))),
            Err(not_won) => Some((due, Err(not_won))),
        })
    }
}

/// `None` if somebody else did, or is about to.
fn start_unless_started(server: &Arc<Server>, won: &Mutex<Option<Vec<Startable>>>) -> Option<Vec<FirstTry>> {
    let won = won.lock().unwrap_or_else(PoisonError::into_inner).take()?;
    Some(won.into_iter().map(|startable| startable.start(server)).collect())
}

/// The rest of a tick, in a task.
fn finish(
    server: &Arc<Server>,
    not_due: &UnboundedSender<usize>,
    due: Due,
    begun: impl Future<Output = Begun> + Send + 'static,
) {
    let (server, not_due) = (server.clone(), not_due.clone());
    server.clone().spawn(async move {
        let _never_silently = NeverSilently(server.clone());
        let Due { index, job, ask } = due;
        let (outcome, unfinished) = tick::finish(&server, &job, ask, begun.await).await;
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
