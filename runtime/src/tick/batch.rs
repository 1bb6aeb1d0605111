//! Ticks that are due together: all of them are claimed, and those that the store decides at once start, before anything else is
//! done for them.
//!
//! On a store in memory, one task per tick from the beginning would delay the last of ten thousand by half as much again: the
//! benchmark `ten_thousand_jobs` measures it.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tokio::sync::mpsc::UnboundedSender;

use super::claim::turns::ClaimTurns;
use super::claim::{ClaimOutcome, claim_tick};
use super::timetable::DueTick;
use super::{DecidedTick, TickOutcome, report, takeover};
use crate::job::Job;
use crate::server::{FailOnPanic, Server};
use crate::store::TickClaim;
use crate::util::token::Tokens;
use crate::util::{random, yield_to_ready_tasks};

/// Claims ticks. Those that the store decides at once start here, and each of the others in a task.
pub(super) fn fire(server: &Arc<Server>, mut due: Vec<DueTick>, not_due: &UnboundedSender<usize>) {
    // In the same order, all servers would race for each tick.
    due.sort_by_cached_key(|_| random());
    let turns = ClaimTurns::new(server.claims_at_first);
    let mut tokens = Tokens::about(due.len());
    // A shutdown waits for all of them.
    let _tracked = server.tracked.token();
    let mut decided = DecidedTicks(Vec::with_capacity(due.len()));
    for DueTick { index, job, claim } in due {
        let tick = claim.tick;
        let fired = FiredTick {
            server: FailOnPanic(server.clone()),
            job: job.clone(),
            index,
            not_due: not_due.clone(),
        };
        let claiming = claim_in_turn(server.clone(), job, claim, tokens.next(), turns.clone());
        let mut claiming = Box::pin(claiming);
        // Nothing has to wake this poll: if it is not the last one, the next one is that of a task.
        let mut context = Context::from_waker(Waker::noop());
        match claiming.as_mut().poll(&mut context) {
            Poll::Ready(claimed) => {
                decided.0.push((DecidedTick::start(server, &fired.job, tick, claimed), fired));
            }
            Poll::Pending => server.spawn(async move {
                let claimed = claiming.await;
                let decided = DecidedTick::start(&fired.server.0, &fired.job, tick, claimed);
                // Runs that can start now all do so before the first of them is watched.
                yield_to_ready_tasks().await;
                fired.end(decided).await;
            }),
        }
    }
}

/// Ticks that were decided at once. Each gets a task, also if the claim of another one panics: runs that have started are watched.
struct DecidedTicks(Vec<(DecidedTick, FiredTick)>);

impl Drop for DecidedTicks {
    fn drop(&mut self) {
        for (decided, fired) in self.0.drain(..) {
            fired.server.0.clone().spawn(fired.end(decided));
        }
    }
}

async fn claim_in_turn(
    server: Arc<Server>,
    job: Arc<Job>,
    claim: TickClaim,
    token: Arc<str>,
    turns: ClaimTurns,
) -> ClaimOutcome {
    let turn = turns.next(claim.grace).await;
    claim_tick(&server, &job, claim, token, Some(turn)).await
}

/// A tick of this server's timetable.
struct FiredTick {
    server: FailOnPanic,
    job: Arc<Job>,
    /// The job's index in the timetable.
    index: usize,
    not_due: UnboundedSender<usize>,
}

impl FiredTick {
    /// Waits for the end of its run, reports a skip, and waits to take the tick over if it may be unfinished.
    async fn end(self, decided: DecidedTick) {
        let Self { server: fail_on_panic, job, index, not_due } = self;
        let server = &fail_on_panic.0;
        let tick = decided.tick;
        let end = decided.end(&job).await;
        match end.outcome {
            TickOutcome::Ran(_) => {}
            TickOutcome::Skipped(reason) => report::skipped(server, &job, tick, reason),
            TickOutcome::NotDue => {
                let _scheduler_has_ended = not_due.send(index);
            }
        }
        if let Some(unfinished) = end.unfinished {
            Box::pin(takeover::wait(server, &job, unfinished)).await;
        }
    }
}
