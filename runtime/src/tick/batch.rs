//! Ticks that are due together: all of them are claimed, and those that were won start, before anything else is done for them.
//!
//! On a store in memory, one task per tick from the beginning would double the delay of the last of ten thousand: the benchmark
//! `ten_thousand_jobs` measures it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tokio::sync::mpsc::UnboundedSender;
use tokio_util::sync::ReusableBoxFuture;

use super::claim::turns::ClaimTurns;
use super::claim::{ClaimOutcome, claim_tick};
use super::timetable::DueTick;
use super::{BegunTick, TickOutcome, report, takeover};
use crate::job::Job;
use crate::server::{FailOnPanic, PANICKED, Server};
use crate::store::TickClaim;
use crate::util::random;
use crate::util::token::Tokens;

/// Claims ticks. Those that the store decides at once start here, and each of the others in a task.
pub(super) fn fire(server: &Arc<Server>, mut due: Vec<DueTick>, not_due: &UnboundedSender<usize>) {
    // In the same order, all servers would race for each tick.
    due.sort_by_cached_key(|_| random());
    let turns = ClaimTurns::new(server.claims_at_first);
    let mut tokens = Tokens::default();
    let mut begun = Vec::with_capacity(due.len());
    // The memory of a claim that was decided at once is that of the next one.
    let mut free: Option<Claiming> = None;
    for DueTick { index, job, claim } in due {
        let tick = claim.tick;
        let fired = FiredTick {
            server: FailOnPanic(server.clone()),
            job: job.clone(),
            index,
            not_due: not_due.clone(),
        };
        let claim = claim_in_turn(server.clone(), job, claim, tokens.next(), turns.clone());
        let mut claiming = match free.take() {
            Some(mut claiming) => {
                claiming.set(claim);
                claiming
            }
            None => Claiming::new(claim),
        };
        // Nothing has to wake this poll: if it is not the last one, the next one is that of a task.
        let polled = catch_unwind(AssertUnwindSafe(|| {
            let claimed = claiming.poll(&mut Context::from_waker(Waker::noop()));
            claimed.map(|claimed| BegunTick::begin(server, &fired.job, tick, claimed))
        }));
        // Whatever happens to one claim, the runs that have started are watched.
        let Ok(polled) = polled else {
            server.fail(PANICKED);
            continue;
        };
        match polled {
            Poll::Ready(tick) => {
                begun.push((tick, fired));
                free = Some(claiming);
            }
            Poll::Pending => server.spawn(async move {
                let claimed = claiming.await;
                let begun = BegunTick::begin(&fired.server.0, &fired.job, tick, claimed);
                fired.end(begun).await;
            }),
        }
    }
    for (begun, fired) in begun {
        server.spawn(fired.end(begun));
    }
}

type Claiming = ReusableBoxFuture<'static, ClaimOutcome>;

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
    async fn end(self, begun: BegunTick) {
        let Self { server: fail_on_panic, job, index, not_due } = self;
        let server = &fail_on_panic.0;
        let tick = begun.tick;
        let end = begun.end(&job).await;
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
