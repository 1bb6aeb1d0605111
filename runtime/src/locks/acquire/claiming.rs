//! One claim for a lock, through all its requests.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use singleton_jobs_policy::timing::{request_timeout, slack};
use tokio::sync::MutexGuard;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::line::{Ear, Line};
use super::pause::Pause;
use super::{Ask, Decision, Patience, Stop};
use crate::fleet::Holder;
use crate::lease::{Asked, HeldLease, PendingClaim};
use crate::locks::LockError;
use crate::server::Server;
use crate::store::{ClaimAnswer, ClaimReply, StoreError, StoreErrorKind, record_key};
use crate::util::backoff::Backoff;

/// The waiting rules of a claim for a lock.
pub(crate) struct Claiming<'a> {
    ask: &'a Ask,
    server: &'a Arc<Server>,
    key: &'a str,
    patience: Patience,
    line: &'a Line,
    /// Only the first in line has it.
    ear: Option<MutexGuard<'a, Ear>>,
    pending: PendingClaim,
    backoff: Backoff,
    pause: Pause,
}

/// How long the store may take until it listens.
const LISTEN_WITHIN: Duration = Duration::from_millis(500);

enum Next {
    Decided(Box<Decision<HeldLease>>),
    /// At once.
    AskAgain,
    /// At this instant, or when there is a reason to hope.
    Wait(Instant),
    Fail(LockError),
}

impl Next {
    fn decided(decision: Decision<HeldLease>) -> Self {
        Self::Decided(Box::new(decision))
    }
}

impl<'a> Claiming<'a> {
    pub(crate) fn new(
        ask: &'a Ask,
        patience: Patience,
        line: &'a Line,
        ear: Option<MutexGuard<'a, Ear>>,
    ) -> Self {
        Self {
            ask,
            server: &ask.options.server,
            key: &ask.options.key,
            patience,
            line,
            ear,
            pending: ask.pending(),
            backoff: Backoff::new(),
            pause: Pause::default(),
        }
    }

    pub(crate) async fn go(
        mut self,
        mut gone: Pin<&mut impl Future<Output = ()>>,
        on_held: impl Fn(&Holder),
    ) -> Result<Decision<HeldLease>, Stop> {
        let cancel_runs = &self.server.cancel_runs;
        loop {
            let freed = self.line.freed.get();
            let wake = match self.step(&on_held).await {
                Next::Decided(decision) => return Ok(*decision),
                Next::Fail(error) => return Err(Stop::Because(error)),
                Next::AskAgain => Instant::now(),
                Next::Wait(wake) => wake.min(self.patience.ends),
            };
            let stop = tokio::select! {
                biased;
                () = gone.as_mut() => Some(Stop::Gone),
                () = cancel_runs.raised() => Some(Stop::Because(LockError::ended(self.key))),
                () = self.line.freed.exceeds(freed) => None,
                () = hear(self.ear.as_deref_mut()) => None,
                () = sleep_until(wake) => None,
            };
            if let Some(stop) = stop {
                return Err(stop);
            }
        }
    }

    /// One question to the store. Nobody interrupts it: a request that is on its way cannot be called back.
    async fn step(&mut self, on_held: &impl Fn(&Holder)) -> Next {
        // A shutdown waits for the answer, but not for the next question.
        let _asking = self.server.ticks.token();
        let asked = match self.pending.ask().await {
            Ok(asked) => asked,
            Err(error) => return self.failed(error),
        };
        self.backoff.reset();
        let ends = self.server.cancel_runs.is_raised();
        let decision = match asked {
            Asked::Won(lease, _) if !ends => {
                self.line.set_holder(None);
                return Next::decided(Decision::Won(lease));
            }
            Asked::Won(lease, _) | Asked::TooLate(lease) => return self.unused(lease),
            Asked::Refused(ClaimAnswer { decision, .. }, _) => decision,
        };
        match decision {
            ClaimReply::Held(holder) => {
                on_held(&holder);
                self.line.set_holder(Some(holder.clone()));
                self.held(holder).await
            }
            ClaimReply::Done(at) => Next::decided(Decision::Done(at)),
            // An earlier request had won, and its lease was over before this one was answered.
            ClaimReply::Lost => self.begin_again(),
            _ => Next::Fail(self.trouble(StoreErrorKind::Unreadable, "its answer makes no sense for a lock")),
        }
    }

    /// A lease that was won, and cannot be used.
    fn unused(&mut self, lease: HeldLease) -> Next {
        lease.give_up(self.server);
        if self.server.cancel_runs.is_raised() {
            return Next::Fail(LockError::ended(self.key));
        }
        if self.patience.is_over() {
            return Next::Fail(
                self.trouble(StoreErrorKind::TimedOut, "its answer came too late to rely on it"),
            );
        }
        self.begin_again()
    }

    async fn held(&mut self, holder: Holder) -> Next {
        if self.patience.is_over() || self.ear.is_none() {
            return Next::decided(Decision::Held { holder, waited: self.patience.begun.elapsed() });
        }
        if self.begins_to_listen().await {
            // The key may have come free just before.
            return Next::AskAgain;
        }
        let is_told = self.ear.as_ref().is_some_and(|ear| ear.listener.is_some());
        let pause = self.pause.next(is_told);
        let lease_ends = holder.remaining.map(|remaining| remaining + slack(self.ask.options.ttl));
        Next::Wait(Instant::now() + lease_ends.map_or(pause, |ends| ends.min(pause)))
    }

    fn failed(&mut self, error: StoreError) -> Next {
        if self.patience.is_over() || self.ear.is_none() || !error.kind().is_retryable() {
            return Next::Fail(LockError::Store { key: self.key.to_owned(), error });
        }
        Next::Wait(Instant::now() + self.backoff.next())
    }

    /// With a new token: the old one is of no use any more.
    fn begin_again(&mut self) -> Next {
        self.pending = self.ask.pending();
        Next::AskAgain
    }

    async fn begins_to_listen(&mut self) -> bool {
        let Some(ear) = self.ear.as_deref_mut().filter(|ear| ear.wants_to_listen()) else {
            return false;
        };
        let key = record_key(self.key, self.ask.what.kind());
        let listening = self.server.store.listen(&key);
        // Meanwhile nothing else is noticed, so it does not take long: whoever is not told asks more often.
        let patience = request_timeout(self.ask.options.ttl).min(LISTEN_WITHIN);
        match timeout_at(self.patience.ends.min(Instant::now() + patience), listening).await {
            Ok(Ok(Some(listener))) => {
                ear.listener = Some(listener);
                ear.since = Instant::now();
            }
            Ok(Ok(None)) => ear.is_deaf = true,
            // Until it can be asked again, the store is asked more often.
            Ok(Err(_)) | Err(_) => {}
        }
        ear.listener.is_some()
    }

    fn trouble(&self, kind: StoreErrorKind, why: &str) -> LockError {
        let error = StoreError::new(kind, "claim", self.server.store.location(), why);
        LockError::Store { key: self.key.to_owned(), error }
    }
}

/// Resolves when the store says that the key may have come free.
async fn hear(ear: Option<&mut Ear>) {
    let Some(ear) = ear else { return std::future::pending().await };
    let Some(listener) = &mut ear.listener else { return std::future::pending().await };
    if !listener.notified().await {
        // The store can no longer tell; it is asked to listen again after the next pause.
        ear.listener = None;
        std::future::pending::<()>().await;
    }
}
