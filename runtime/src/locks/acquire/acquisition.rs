//! The requests of one acquisition, from the first to the last.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use singleton_jobs_policy::timing::{request_timeout, slack};
use tokio::sync::MutexGuard;
use tokio::time::{Instant, sleep_until};

use super::poll_interval::PollInterval;
use super::wait_queue::WaitQueue;
use super::{AcquireError, AcquireOutcome, LockRequest, WaitLimit};
use crate::fleet::Holder;
use crate::lease::{ClaimResult, HeldLease, PendingClaim};
use crate::locks::{LockError, LockOperation};
use crate::server::Server;
use crate::store::{ClaimDecision, ClaimReply, KeySubscription, StoreError, StoreErrorKind, record_key};
use crate::util::backoff::Backoff;

/// An acquisition in progress.
pub(crate) struct Acquisition<'a> {
    request: &'a LockRequest,
    server: &'a Arc<Server>,
    limit: WaitLimit,
    queue: &'a WaitQueue,
    /// The first place in the queue; `None` for a caller that does not wait, and asks the store only once.
    first_place: Option<MutexGuard<'a, KeySubscription>>,
    pending: PendingClaim,
    backoff: Backoff,
    poll: PollInterval,
}

/// The time that the store has to confirm a subscription.
const SUBSCRIBE_TIMEOUT: Duration = Duration::from_millis(500);

enum NextStep {
    Return(Box<AcquireOutcome<HeldLease>>),
    RetryNow,
    /// At this instant, or as soon as the key may be free.
    RetryAt(Instant),
    Fail(LockError),
}

impl NextStep {
    fn held(holder: Holder, waited: Duration) -> Self {
        Self::Return(Box::new(AcquireOutcome::Held { holder, waited }))
    }
}

impl<'a> Acquisition<'a> {
    pub(crate) fn new(
        request: &'a LockRequest,
        limit: WaitLimit,
        queue: &'a WaitQueue,
        first_place: Option<MutexGuard<'a, KeySubscription>>,
    ) -> Self {
        Self {
            request,
            server: &request.server,
            limit,
            queue,
            first_place,
            pending: request.pending_claim(),
            backoff: Backoff::new(),
            poll: PollInterval::default(),
        }
    }

    pub(crate) async fn run(
        mut self,
        mut caller_gone: Pin<&mut impl Future<Output = ()>>,
        on_held: impl Fn(&Holder),
    ) -> Result<AcquireOutcome<HeldLease>, AcquireError> {
        let cancel_runs = &self.server.cancel_runs;
        loop {
            let releases = self.queue.releases.get();
            let wake = match self.step(&on_held).await {
                NextStep::Return(acquired) => return Ok(*acquired),
                NextStep::Fail(error) => return Err(error.into()),
                NextStep::RetryNow => Instant::now(),
                NextStep::RetryAt(wake) => wake.min(self.limit.deadline),
            };
            tokio::select! {
                biased;
                () = caller_gone.as_mut() => return Err(AcquireError::CallerGone),
                () = cancel_runs.raised() => return Err(LockError::shut_down(&self.request.key).into()),
                () = self.queue.releases.exceeds(releases) => {}
                () = notified(self.first_place.as_deref_mut()) => {}
                () = sleep_until(wake) => {}
            }
        }
    }

    /// Sends one request to the store. It is not interrupted: a request that was sent cannot be called back.
    async fn step(&mut self, on_held: &impl Fn(&Holder)) -> NextStep {
        // A shutdown waits for the reply, but not for the next request.
        let _tracked = self.server.tracked.token();
        let asked = match self.pending.ask().await {
            Ok(asked) => asked,
            Err(error) => return self.failed(error),
        };
        self.backoff.reset();
        let is_cancelled = self.server.cancel_runs.is_raised();
        let reply = match asked {
            ClaimResult::Won(lease) if !is_cancelled => {
                self.queue.set_holder(None);
                return NextStep::Return(Box::new(AcquireOutcome::Lock(lease)));
            }
            ClaimResult::Won(lease) | ClaimResult::TooLate(lease) => return self.release_unused(lease),
            ClaimResult::Refused(ClaimReply { decision, .. }, _) => decision,
        };
        match reply {
            ClaimDecision::Held(holder) => {
                on_held(&holder);
                self.queue.set_holder(Some(holder.clone()));
                self.held(holder).await
            }
            ClaimDecision::Done(at) => NextStep::Return(Box::new(AcquireOutcome::AlreadyDone(at))),
            // An earlier request had won, and its lease was over before the reply to this one.
            ClaimDecision::Lost => self.restart(),
            _ => NextStep::Fail(self.request.unexpected_reply()),
        }
    }

    /// Releases a lease that was won but cannot be used.
    fn release_unused(&mut self, lease: HeldLease) -> NextStep {
        lease.release_unused(self.server);
        if self.server.cancel_runs.is_raised() {
            return NextStep::Fail(LockError::shut_down(&self.request.key));
        }
        if self.limit.is_over() {
            let cause = "the reply came too late to rely on the lock";
            return NextStep::Fail(self.request.store_error(StoreErrorKind::TimedOut, cause));
        }
        self.restart()
    }

    async fn held(&mut self, holder: Holder) -> NextStep {
        if self.limit.is_over() || self.first_place.is_none() {
            return NextStep::held(holder, self.limit.started.elapsed());
        }
        if self.subscribe().await {
            // The key may have been released just before.
            return NextStep::RetryNow;
        }
        let is_notified = self.first_place.as_ref().is_some_and(|subscription| subscription.is_active());
        let pause =
            if is_notified { self.poll.with_notifications() } else { self.poll.without_notifications() };
        let lease_ends = holder.remaining.map(|remaining| remaining + slack(self.request.ttl));
        NextStep::RetryAt(Instant::now() + lease_ends.map_or(pause, |ends| ends.min(pause)))
    }

    fn failed(&mut self, error: StoreError) -> NextStep {
        if self.limit.is_over() || self.first_place.is_none() || !error.kind().is_retryable() {
            return NextStep::Fail(LockError::store(LockOperation::Acquire, &self.request.key, error));
        }
        NextStep::RetryAt(Instant::now() + self.backoff.next())
    }

    /// Claims with a new token. The old one cannot win any more.
    fn restart(&mut self) -> NextStep {
        self.pending = self.request.pending_claim();
        NextStep::RetryNow
    }

    /// Subscribes to releases of the key, or renews the subscription. Returns whether the store confirmed it just now.
    async fn subscribe(&mut self) -> bool {
        let Some(subscription) = self.first_place.as_deref_mut() else { return false };
        let key = record_key(&self.request.key, self.request.what.kind());
        // Nothing else is noticed meanwhile, so the time is short: without notifications it polls more often.
        let timeout = request_timeout(self.request.ttl).min(SUBSCRIBE_TIMEOUT);
        let until = self.limit.deadline.min(Instant::now() + timeout);
        subscription.renew(&*self.server.store, &key, until).await
    }
}

async fn notified(subscription: Option<&mut KeySubscription>) {
    match subscription {
        Some(subscription) => subscription.notified().await,
        None => std::future::pending().await,
    }
}
