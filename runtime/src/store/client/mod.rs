//! Sends every message to the store: look, decide, swap.

use std::borrow::Cow;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use tokio::task::coop::{Unconstrained, unconstrained};
use tokio::time::{Sleep, sleep};

use super::decide::Decision;
use super::{LeaseKind, Look, Store, StoreError, StoreErrorKind, StoreFuture, Swap, SwapReply};
use crate::Timestamp;
use crate::lease::store_clock::{ClockReading, StoreClock};
use crate::util::planted::{PlantedBug, is_planted};
use crate::util::random;

mod fleet;
mod key_mutexes;
mod key_subscription;
mod lease;
mod operate;
mod probe;
mod swap_backoff;
#[cfg(test)]
mod tests;
mod unanswered;

pub(crate) use fleet::{AnnouncedServers, is_job, lock_key};
pub(crate) use key_mutexes::KeyMutexes;
pub(crate) use key_subscription::KeySubscription;
pub(crate) use lease::CachedRecord;
use swap_backoff::SwapBackoff;
pub(crate) use unanswered::UnansweredSwaps;

/// The steps that errors name, as far as behaviour depends on them.
pub(crate) mod step {
    /// Decides ticks: its success ends every failure of the store.
    pub(crate) const CLAIM: &str = "claim";
    pub(crate) const EXTEND: &str = "extend";
    pub(crate) const RELEASE: &str = "release";
    /// Any answer: it ends an outage, but not a refusal.
    pub(crate) const REACH: &str = "reach";
}

/// Observes the results of requests, for the health and the metrics of the server.
pub(crate) trait RequestObserver: Send + Sync {
    /// The store has answered a request of this step.
    fn answered(&self, step: &'static str);
    /// A request of this step has failed.
    fn failed(&self, step: &'static str, error: &StoreError);
    /// One request of this step took this long, whether it was answered or has failed.
    #[cfg(feature = "metrics")]
    fn took(&self, _step: &'static str, _time: Duration) {}
}

/// Sends messages to one store.
pub(crate) struct StoreClient<'a> {
    pub(crate) store: &'a dyn Store,
    pub(crate) time: &'a StoreClock,
    pub(crate) semaphore_mutexes: &'a KeyMutexes,
    pub(crate) observer: &'a dyn RequestObserver,
    /// Response timeout of the store.
    pub(crate) within: Duration,
}

/// A message about one key.
struct Message<'a> {
    /// Its name in errors and logs.
    step: &'static str,
    key: &'a str,
    /// The look that the store would show, if that is known: then the first request is the swap.
    expected: Option<Look>,
    /// For a claim: its swaps that were not answered.
    unanswered: Option<&'a mut UnansweredSwaps>,
}

/// The reply to a message, and when it was given.
#[derive(Debug)]
pub(crate) struct TimedReply<T> {
    pub(crate) reply: T,
    /// The store's clock at the answer.
    pub(crate) now: Timestamp,
    /// Just before the last request was sent.
    pub(crate) sent: ClockReading,
    /// The record as it was written, if it was.
    pub(crate) written: Option<CachedRecord>,
}

/// The key of the record of a semaphore's slots, apart from a lock with the same key. No key of a user contains a `#`.
fn slots_key(key: &str) -> String {
    format!("{key}{SLOTS}")
}

const SLOTS: &str = "#slots";

/// The key of the record that all servers share.
pub(crate) const FLEET: &str = "#fleet";

/// Returns the key of the record that holds leases of this kind.
pub(crate) fn record_key(key: &str, kind: LeaseKind) -> Cow<'_, str> {
    match kind {
        LeaseKind::Slot { .. } => slots_key(key).into(),
        _ => key.into(),
    }
}

impl StoreClient<'_> {
    /// Returns the store's time.
    pub(crate) async fn ping(&self) -> Result<Timestamp, StoreError> {
        // A key that no job, lock or semaphore can have.
        let now = self.look("ping", "#ping").await?.0.now;
        self.observer.answered("ping");
        Ok(now)
    }

    /// Sends a message that is not about a lease.
    async fn change<T>(
        &self,
        step: &'static str,
        key: &str,
        decide: impl Fn(&Look) -> Decision<T> + Send + Sync,
    ) -> Result<T, StoreError> {
        let message = Message { step, key, expected: None, unanswered: None };
        Ok(self.look_decide_swap(message, |_| true, decide).await?.reply)
    }

    /// Decides on a look, and swaps the change in. Decides anew each time the key has changed meanwhile.
    ///
    /// A decision that was made without a look counts only if `counts` accepts its reply and the swap is applied.
    async fn look_decide_swap<T>(
        &self,
        message: Message<'_>,
        counts: impl Fn(&T) -> bool,
        decide: impl Fn(&Look) -> Decision<T>,
    ) -> Result<TimedReply<T>, StoreError> {
        let Message { step, key, expected, mut unanswered } = message;
        let mut is_expected = expected.is_some();
        let mut shown = expected.map(|look| (look, self.time.read_clocks()));
        let mut backoff = SwapBackoff::new(step, self.within);
        loop {
            let (look, sent) = match shown.take() {
                Some(shown) => shown,
                None => self.look(step, key).await?,
            };
            if let (false, Some(unanswered)) = (is_expected, &mut unanswered) {
                unanswered.compare(&look, self.within);
            }
            let Decision { reply, change } = decide(&look);
            let change = match change {
                Some(change) if !is_expected || counts(&reply) => change,
                None if !is_expected => {
                    self.observer.answered(step);
                    return Ok(TimedReply { reply, now: look.now, sent, written: None });
                }
                _ => {
                    is_expected = false;
                    continue;
                }
            };
            let swap = Swap {
                expected: look.version,
                expected_lock: look.lock.as_ref().map(|lock| lock.token.clone()),
                nonce: random(),
                change,
            };
            let earlier = unanswered.as_mut().and_then(|unanswered| unanswered.add(&swap));
            let sent = self.time.read_clocks();
            let answer = self.ask(step, self.store.swap(key, &swap)).await?;
            self.time.learn(sent.steady, answer.now());
            let is_late = is_planted(PlantedBug::DeadlineFromArrival);
            let sent = if is_late { self.time.read_clocks() } else { sent };
            if let Some(unanswered) = &mut unanswered {
                unanswered.sent = earlier;
            }
            match answer {
                SwapReply::Swapped(swapped) => {
                    self.observer.answered(step);
                    let written = CachedRecord::new(swapped, look.lock, swap.change);
                    return Ok(TimedReply { reply, now: swapped.now, sent, written });
                }
                SwapReply::Changed(Look { version, lock, finished, .. })
                    if is_planted(PlantedBug::ResendsOldDecision) =>
                {
                    (shown, is_expected) = (Some((Look { version, lock, finished, ..look }, sent)), false);
                }
                SwapReply::Changed(changed) => (shown, is_expected) = (Some((changed, sent)), false),
            }
            if backoff.is_over() {
                return Err(self.timed_out(step, format!("[{key}] changed at every attempt")));
            }
            if backoff.pauses().await {
                // A swap that expects what was shown before would be refused again.
                shown = None;
            }
        }
    }

    /// Returns a look at a key, within the response timeout.
    pub(crate) async fn show(&self, key: &str) -> Result<Look, StoreError> {
        Ok(self.look("look", key).await?.0)
    }

    fn timed_out(&self, step: &'static str, cause: String) -> StoreError {
        StoreError::new(StoreErrorKind::TimedOut, step, self.store.location(), cause)
    }

    /// Returns a look, and when it was sent.
    async fn look(&self, step: &'static str, key: &str) -> Result<(Look, ClockReading), StoreError> {
        let sent = self.time.read_clocks();
        let look = self.ask(step, self.store.look(key)).await?;
        self.time.learn(sent.steady, look.now);
        Ok((look, sent))
    }

    /// Waits for the answer to one request, up to the response timeout.
    pub(crate) async fn ask<T>(
        &self,
        step: &'static str,
        mut request: StoreFuture<'_, T>,
    ) -> Result<T, StoreError> {
        #[cfg(feature = "metrics")]
        let sent = tokio::time::Instant::now();
        // A store in memory answers at once, and needs no timer.
        let mut timer: Option<Pin<Box<Unconstrained<Sleep>>>> = None;
        let result = poll_fn(|polling| {
            if let Poll::Ready(result) = request.as_mut().poll(polling) {
                return Poll::Ready(result);
            }
            // The timer expires also for a request that uses up all that a task may do at a time.
            let timer = timer.get_or_insert_with(|| Box::pin(unconstrained(sleep(self.within))));
            let timed_out = |()| Err(self.timed_out(step, format!("no answer within {:?}", self.within)));
            timer.as_mut().poll(polling).map(timed_out)
        })
        .await;
        // A connection that did not answer is closed before the failure is reported.
        drop(request);
        #[cfg(feature = "metrics")]
        self.observer.took(step, sent.elapsed());
        match &result {
            Ok(_) => self.observer.answered(step::REACH),
            Err(error) => self.observer.failed(step, error),
        }
        result
    }
}
