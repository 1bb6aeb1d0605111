//! Taking over a tick that another server started and did not finish.

use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use singleton_jobs_policy::timing::slack;

use super::{TickOutcome, claim, run_tick};
use crate::Timestamp;
use crate::history::RunOutcome;
use crate::job::Job;
use crate::observe::event::SkipReason;
use crate::server::Server;
use crate::store::UnfinishedTick;
use crate::util::lock;

/// Waits until the lease of an unfinished tick should have ended, and claims the tick: the lease was extended
/// or released, or the tick is free to take over. At most one claim per ttl, and one of these per job and
/// server.
pub(crate) async fn wait(server: &Arc<Server>, job: &Arc<Job>, unfinished: UnfinishedTick) {
    let mut next = job.activity.takeover.begin(unfinished);
    while let Some(UnfinishedTick { tick, remaining }) = next {
        let ttl = job.policy.ttl;
        tokio::select! {
            biased;
            () = server.no_new_runs.raised() => return,
            () = tokio::time::sleep(remaining.unwrap_or(ttl).min(ttl) + slack(ttl)) => {}
        }
        job.activity.takeover.discard_queued();
        tokio::select! {
            biased;
            () = server.no_new_runs.raised() => return,
            () = server.application_answers() => {}
        }
        let report = run_tick(server, job, claim::takeover(job, tick)).await;
        if server.no_new_runs.is_raised() {
            return;
        }
        next = report.unfinished.or_else(|| job.activity.takeover.end());
    }
}

/// The tick, if the store may have it as started and not finished, and no other server may know.
pub(super) fn unfinished(job: &Job, tick: Timestamp, outcome: &TickOutcome) -> Option<UnfinishedTick> {
    let may_be_unfinished = match outcome {
        TickOutcome::Ran(record) => record.outcome == RunOutcome::LeaseLost,
        TickOutcome::Skipped(reason) => matches!(
            reason,
            SkipReason::WonTooLate
                | SkipReason::NotReplicated(_)
                | SkipReason::StoreUnavailable(_)
                | SkipReason::StillRunning
                | SkipReason::ApplicationBlocked
                | SkipReason::Busy
        ),
        TickOutcome::NotDue => false,
    };
    // A lease that was lost here has ended, or is about to.
    let remaining = matches!(outcome, TickOutcome::Ran(_)).then_some(Duration::ZERO);
    (may_be_unfinished && job.policy.allowed_takeovers() > 0).then_some(UnfinishedTick { tick, remaining })
}

/// The task on this server that waits to take over a tick of a job: at most one.
#[derive(Default)]
pub(crate) struct TakeoverWaiter(Mutex<WaiterState>);

#[derive(Default)]
enum WaiterState {
    #[default]
    Idle,
    Waiting,
    /// Another unfinished tick was reported meanwhile.
    Queued(UnfinishedTick),
}

impl TakeoverWaiter {
    /// Returns the tick to the caller if it is the only one to wait; otherwise queues it for the task that
    /// waits.
    fn begin(&self, unfinished: UnfinishedTick) -> Option<UnfinishedTick> {
        self.change(|state| match state {
            WaiterState::Idle => (WaiterState::Waiting, Some(unfinished)),
            _ => (WaiterState::Queued(unfinished), None),
        })
    }

    /// Discards the queued tick before a claim: the claim's answer is newer.
    fn discard_queued(&self) {
        self.change(|_| (WaiterState::Waiting, None));
    }

    /// Returns the queued tick; without one, the task no longer waits.
    fn end(&self) -> Option<UnfinishedTick> {
        self.change(|state| match state {
            WaiterState::Queued(unfinished) => (WaiterState::Waiting, Some(unfinished)),
            _ => (WaiterState::Idle, None),
        })
    }

    fn change(
        &self,
        change: impl FnOnce(WaiterState) -> (WaiterState, Option<UnfinishedTick>),
    ) -> Option<UnfinishedTick> {
        let mut state = lock(&self.0);
        let (changed, unfinished) = change(std::mem::take(&mut *state));
        *state = changed;
        unfinished
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unfinished(tick: i64) -> UnfinishedTick {
        UnfinishedTick { tick: Timestamp::from_micros(tick), remaining: None }
    }

    #[test]
    fn only_one_task_waits_at_a_time() {
        let waiter = TakeoverWaiter::default();
        assert_eq!(waiter.begin(unfinished(1)), Some(unfinished(1)));
        assert_eq!(waiter.begin(unfinished(2)), None);
        assert_eq!(waiter.begin(unfinished(3)), None);
    }

    #[test]
    fn new_wait_begins_after_the_previous_one_has_ended() {
        let waiter = TakeoverWaiter::default();
        waiter.begin(unfinished(1));
        waiter.discard_queued();
        assert_eq!(waiter.end(), None);
        assert_eq!(waiter.begin(unfinished(2)), Some(unfinished(2)));
    }

    #[test]
    fn newest_tick_reported_during_a_claim_is_waited_for_next() {
        let waiter = TakeoverWaiter::default();
        waiter.begin(unfinished(1));
        waiter.discard_queued();
        waiter.begin(unfinished(2));
        waiter.begin(unfinished(3));
        assert_eq!(waiter.end(), Some(unfinished(3)));
        assert_eq!(waiter.begin(unfinished(4)), None, "it still waits");
        assert_eq!(waiter.end(), Some(unfinished(4)));
        assert_eq!(waiter.end(), None);
    }

    #[test]
    fn tick_reported_before_a_claim_is_answered_by_it() {
        let waiter = TakeoverWaiter::default();
        waiter.begin(unfinished(1));
        waiter.begin(unfinished(2));
        waiter.discard_queued();
        assert_eq!(waiter.end(), None);
    }
}
