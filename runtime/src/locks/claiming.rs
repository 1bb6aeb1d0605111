//! One claim for a lock, through all its requests.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::MutexGuard;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::LockError;
use super::acquire::{Ask, Decision, Patience, Stop};
use super::line::{Ear, Line};
use super::pause::Pause;
use crate::Timestamp;
use crate::backoff::Backoff;
use crate::claim::request_timeout;
use crate::lease::HeldLease;
use crate::server::Server;
use crate::store::{Claim, ClaimReply, Holder, StoreError, StoreErrorKind, Verdict, Won};
use crate::store_time::Moment;
use crate::waiting::slack;

/// Every request carries the same token, so that whatever one of them won is known to the next. Once the token is
/// given back no request with it is sent.
pub(super) struct Claiming<'a> {
    ask: &'a Ask,
    server: &'a Arc<Server>,
    key: &'a str,
    patience: Patience,
    line: &'a Line,
    /// Only the first in line has it.
    ear: Option<MutexGuard<'a, Ear>>,
    claim: Claim,
    /// A request had no answer: it may have won, or may win yet.
    unanswered: bool,
    backoff: Backoff,
    pause: Pause,
}

/// How long the store may take until it listens.
const LISTEN_WITHIN: Duration = Duration::from_millis(500);

enum Next {
    Decided(Decision<HeldLease>),
    /// At once.
    AskAgain,
    /// At this instant, or when there is a reason to hope.
    Wait(Instant),
    Fail(LockError),
}

impl<'a> Claiming<'a> {
    pub(super) fn new(
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
            claim: ask.claim(),
            unanswered: false,
            backoff: Backoff::new(),
            pause: Pause::default(),
        }
    }

    pub(super) async fn go(
        mut self,
        mut gone: Pin<&mut impl Future<Output = ()>>,
        on_held: impl Fn(&Holder),
    ) -> Result<Decision<HeldLease>, Stop> {
        let cancel_runs = &self.server.cancel_runs;
        loop {
            let freed = self.line.freed.get();
            let wake = match self.step(&on_held).await {
                Next::Decided(decision) => return Ok(decision),
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
                self.give_up();
                return Err(stop);
            }
        }
    }

    /// One question to the store. Nobody interrupts it: a request that is on its way cannot be called back.
    async fn step(&mut self, on_held: &impl Fn(&Holder)) -> Next {
        // A shutdown waits for the answer, but not for the next question.
        let _asking = self.server.ticks.token();
        self.claim.waits = self.ear.as_ref().is_some_and(|ear| ear.listener.is_some());
        let sent = self.server.time.moment();
        let request = self.server.store.claim(self.key, &self.claim);
        let answer = match self.server.ask("claim", request_timeout(self.claim.ttl), request).await {
            Ok(answer) => answer,
            Err(error) => return self.failed(error),
        };
        self.backoff.reset();
        let Verdict { decision, .. } = answer.reply;
        match decision {
            ClaimReply::Won(won) => self.won(won, sent, answer.at),
            ClaimReply::Held(holder) => {
                on_held(&holder);
                self.line.set_holder(Some(holder.clone()));
                self.held(holder).await
            }
            ClaimReply::Done(at) => Next::Decided(Decision::Done(at)),
            // An earlier request had won, and its lease was over before this one was answered.
            ClaimReply::Lost => self.begin_again(),
            _ => Next::Fail(self.trouble(StoreErrorKind::Unreadable, "its answer makes no sense for a lock")),
        }
    }

    fn won(&mut self, won: Won, sent: Moment, at: Timestamp) -> Next {
        let keep_alive = self.ask.options.keep_alive;
        let lease = HeldLease::won(self.server, self.key, keep_alive, self.claim.clone(), won, sent, at);
        let ends = self.server.cancel_runs.is_raised();
        if !ends && !lease.proof().is_lost() {
            self.line.set_holder(None);
            return Next::Decided(Decision::Won(lease));
        }
        HeldLease::give_back(self.server, self.key, self.claim.clone());
        if ends {
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
            self.give_up();
            return Next::Decided(Decision::Held { holder, waited: self.patience.begun.elapsed() });
        }
        if self.begins_to_listen().await {
            // The key may have come free just before.
            return Next::AskAgain;
        }
        let pause = self.pause.next(self.claim.waits);
        let lease_ends = holder.remaining.map(|remaining| remaining + slack(self.claim.ttl));
        Next::Wait(Instant::now() + lease_ends.map_or(pause, |ends| ends.min(pause)))
    }

    fn failed(&mut self, error: StoreError) -> Next {
        self.unanswered = true;
        if self.patience.is_over() || self.ear.is_none() || !error.kind().may_pass_soon() {
            self.give_up();
            return Next::Fail(LockError::Store { key: self.key.to_owned(), error });
        }
        Next::Wait(Instant::now() + self.backoff.next())
    }

    /// With a new token: the old one is of no use any more.
    fn begin_again(&mut self) -> Next {
        self.claim = self.ask.claim();
        self.unanswered = false;
        Next::AskAgain
    }

    /// Nothing that this claim may have won stays behind.
    fn give_up(&mut self) {
        if std::mem::take(&mut self.unanswered) {
            HeldLease::give_back(self.server, self.key, self.claim.clone());
        }
    }

    async fn begins_to_listen(&mut self) -> bool {
        let Some(ear) = self.ear.as_deref_mut().filter(|ear| ear.listener.is_none() && !ear.is_deaf) else {
            return false;
        };
        let listening = self.server.store.listen(self.key);
        // Meanwhile nothing else is noticed, so it does not take long: whoever is not told asks more often.
        let patience = request_timeout(self.claim.ttl).min(LISTEN_WITHIN);
        match timeout_at(self.patience.ends.min(Instant::now() + patience), listening).await {
            Ok(Ok(Some(listener))) => ear.listener = Some(listener),
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
    if !listener.freed().await {
        // The store can no longer tell; it is asked to listen again after the next pause.
        ear.listener = None;
        std::future::pending::<()>().await;
    }
}
