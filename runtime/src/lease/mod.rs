//! A lease while it is held: kept alive, and released only when the future of its run is gone.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use singleton_jobs_policy::timing::{margin, request_timeout};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::history::{RunOutcome, RunRecord};
use crate::observe::event::RunRef;
use crate::server::{FailOnPanic, Server};
use crate::store::{
    CachedRecord, Ending, ExtendReply, Gap, Lease, ReleaseReply, StoreError, StoreErrorKind, TimedReply,
    WonClaim,
};
use crate::util::backoff::Backoff;
use crate::util::watched::Flag;
use crate::{Run, Timestamp};
use transaction::RunLease;
use validity::Validity;

pub(crate) mod finish_error;
mod pending;
pub(crate) mod store_clock;
#[cfg(test)]
mod tests;
pub(crate) mod transaction;
pub(crate) mod validity;

pub(crate) use pending::{ClaimResult, PendingClaim};

/// A key that this server holds.
pub(crate) struct HeldLease {
    key: Arc<str>,
    kept_alive: bool,
    lease: Lease,
    validity: Arc<Validity>,
    /// Raised when an operator asks to cancel the run.
    cancel_requested: Arc<Flag>,
    /// Raised to ask the store before the next extension is due.
    check: Arc<Notify>,
    /// The record as it was written last: while nothing changes it, an extension needs no look.
    cached: Option<CachedRecord>,
    missed: Vec<Gap>,
    usual_duration: Option<Duration>,
}

/// How often the machine's clocks are compared during a run, to notice a suspend.
const COMPARE_CLOCKS: Duration = Duration::from_secs(1);

/// How long a release is retried: the lock expires by itself, but the run's record would be lost.
const RELEASE_FOR: Duration = Duration::from_secs(600);

impl HeldLease {
    /// The lease of a claim that was won with this answer.
    fn new(server: &Server, key: Arc<str>, kept_alive: bool, answer: TimedReply<WonClaim>) -> Self {
        let WonClaim { lease, missed, usual: usual_duration } = answer.reply;
        // A store whose clock went back would grant more.
        let remaining = lease.until.since(answer.now).min(lease.ttl);
        let validity =
            Arc::new(Validity::new(&server.time, kept_alive, margin(lease.ttl), answer.sent, remaining));
        let (cancel_requested, check, cached) = (Arc::default(), Arc::default(), answer.written);
        Self { key, kept_alive, lease, validity, cancel_requested, check, cached, missed, usual_duration }
    }

    pub(crate) fn run_ref(&self) -> RunRef {
        RunRef { tick: self.lease.tick, fence: self.lease.fence, attempt: self.lease.attempt }
    }

    /// What a transaction of the application checks.
    pub(crate) fn run_lease(&self) -> RunLease {
        let Lease { token, kind, ttl, .. } = &self.lease;
        let (validity, finish_called) = (self.validity.clone(), Arc::default());
        RunLease { token: token.clone(), kind: *kind, ttl: *ttl, validity, finish_called }
    }

    pub(crate) fn validity(&self) -> &Arc<Validity> {
        &self.validity
    }

    /// Raised when an operator asks to cancel the run.
    pub(crate) fn cancel_requested(&self) -> &Arc<Flag> {
        &self.cancel_requested
    }

    /// Raised to ask the store before the next extension is due.
    pub(crate) fn check(&self) -> &Arc<Notify> {
        &self.check
    }

    /// The mean duration of the job's successful runs, if there are enough of them.
    pub(crate) fn usual_duration(&self) -> Option<Duration> {
        self.usual_duration
    }

    /// Takes the ticks before this one that no server ran, skipped or reported. The caller reports them, so
    /// the store need not keep them any longer.
    pub(crate) fn take_missed(&mut self) -> Vec<Gap> {
        self.lease.reported = self.missed.iter().map(|gap| gap.before).max();
        std::mem::take(&mut self.missed)
    }

    /// The record of the run under this lease.
    pub(crate) fn record(&self, run: &Run, ended: Timestamp, ending: &Ending) -> RunRecord {
        RunRecord { progress: run.progress(), ..RunRecord::of(&self.lease, ended, ending) }
    }

    /// Extends the lease every third of its ttl until a future completes, whose output is returned, or until
    /// the lease is lost. A failed extension is retried until the local deadline. Each extension carries the
    /// run's progress.
    pub(crate) async fn keep_alive<T>(
        &mut self,
        server: &Server,
        run: Option<&Run>,
        until: impl Future<Output = T>,
    ) -> Option<T> {
        let mut until = pin!(until);
        let mut due = self.next_extension();
        let mut backoff = Backoff::new();
        loop {
            let check = self.validity.deadline().min(Instant::now() + COMPARE_CLOCKS);
            let wake = if self.kept_alive { check.min(due) } else { check };
            tokio::select! {
                biased;
                // First: what has ended needs no further extension.
                output = &mut until => return Some(output),
                () = self.validity.in_doubt() => due = Instant::now(),
                () = self.check.notified() => due = Instant::now(),
                () = tokio::time::sleep_until(wake) => {}
            }
            if self.validity.is_lost() {
                self.validity.lose();
                return None;
            }
            if self.validity.is_doubtful() {
                due = Instant::now();
            }
            if !self.kept_alive || Instant::now() < due {
                continue;
            }
            self.lease.progress = run.and_then(Run::progress);
            // Boxed: most leases end before their first extension.
            due = match Box::pin(self.extend(server)).await {
                Ok(ExtendReply::Kept { cancelled_by, .. }) => {
                    if let Some(by) = cancelled_by.filter(|_| !self.cancel_requested.is_raised()) {
                        let key = &*self.key;
                        tracing::info!(target: "jobs", key, by = &*by, "[{key}] {by} asks to cancel the run");
                        self.cancel_requested.raise();
                    }
                    backoff.reset();
                    self.next_extension()
                }
                Ok(ExtendReply::Restored(_)) => {
                    backoff.reset();
                    self.next_extension()
                }
                Ok(ExtendReply::Lost { broken_by }) => {
                    if let Some(by) = broken_by {
                        let key = &*self.key;
                        tracing::warn!(target: "jobs", key, by = &*by, "[{key}] the lease was broken by {by}");
                    }
                    self.validity.lose();
                    return None;
                }
                Err(_) => Instant::now() + backoff.next().min(self.lease.ttl / 20),
            };
        }
    }

    /// A third of the ttl after the last confirmation; sooner for a lease that was won again with little
    /// left.
    fn next_extension(&self) -> Instant {
        let confirmed = self.validity.confirmed_at();
        confirmed + (self.lease.ttl / 3).min(self.validity.deadline().duration_since(confirmed) / 2)
    }

    /// Extends the lease. After an error the last confirmation still counts.
    pub(crate) async fn extend(&mut self, server: &Server) -> Result<ExtendReply, StoreError> {
        let requests = server.requests(request_timeout(self.lease.ttl));
        let key = &*self.key;
        // An extension without an answer may have been applied, which changes the record. After a suspend the
        // time since the last answer is not known.
        let cached = self.cached.take().filter(|_| !self.validity.is_doubtful());
        let extending = requests.extend(key, &self.lease, cached.as_ref());
        // However many requests it takes, the holder must know at the deadline.
        let Ok(answer) = tokio::time::timeout_at(self.validity.deadline(), extending).await else {
            let (kind, location) = (StoreErrorKind::TimedOut, server.store.location());
            return Err(StoreError::new(
                kind,
                "extend",
                location,
                "no answer before the local deadline of the lease",
            ));
        };
        let answer = answer?;
        let until = match &answer.reply {
            ExtendReply::Kept { until, .. } => *until,
            ExtendReply::Restored(until) => {
                let fence = self.lease.fence;
                tracing::warn!(target: "jobs", key, fence, "[{key}] the store had lost this lease; it was restored");
                *until
            }
            ExtendReply::Lost { .. } => return Ok(answer.reply),
        };
        self.cached = answer.written;
        self.lease.until = until;
        self.validity.confirm(answer.sent, until.since(answer.now).min(self.lease.ttl));
        Ok(answer.reply)
    }

    /// Sets the duration of each further extension. Until one is confirmed the shorter of both durations
    /// counts: an extension without an answer may have been applied.
    pub(crate) fn set_ttl(&mut self, server: &Server, ttl: Duration) {
        self.lease.ttl = ttl;
        // A lease that ended earlier than its holder knows must not be restored after its successor.
        self.lease.until = self.lease.until.min(server.time.now() + ttl);
        self.validity.set_ttl(server.time.read_clocks(), margin(ttl), ttl);
    }

    /// Releases a lease under which nothing was started, in a task of its own.
    pub(crate) fn release_unused(self, server: &Arc<Server>) {
        let server = server.clone();
        server.clone().spawn(async move {
            let _fail_on_panic = FailOnPanic(server.clone());
            self.release(&server, None, &Ending::of(RunOutcome::NotStarted, server.history_limit)).await;
        });
    }

    /// Releases the lease and records its run. Only for a run whose future is gone.
    pub(crate) async fn release(mut self, server: &Server, run: Option<&Run>, ending: &Ending) {
        self.lease.progress = run.and_then(Run::progress);
        let reply = self.send_release(server, ending, RELEASE_FOR).await;
        let key = &*self.key;
        match reply {
            Ok(ReleaseReply::NotHeld) => {
                tracing::debug!(target: "jobs", key, "[{key}] the lease had ended before it was released");
            }
            Err(error) => {
                let outcome = ending.outcome.as_str();
                tracing::error!(
                    target: "jobs", key, outcome, %error,
                    "[{key}] failed to record the end of this run; its lock expires by itself"
                );
            }
            Ok(_) => {}
        }
    }

    /// Releases a manual lock, which has no record: it is retried for a ttl, after which nothing is left to
    /// release. Returns `false` if the lease had ended before.
    pub(crate) async fn release_lock(
        mut self,
        server: &Server,
        run: Option<&Run>,
        ending: &Ending,
    ) -> Result<bool, StoreError> {
        self.lease.progress = run.and_then(Run::progress);
        let reply = self.send_release(server, ending, self.lease.ttl).await?;
        Ok(reply != ReleaseReply::NotHeld)
    }

    /// Sends a release until the store has answered, for at most `retry_for`.
    async fn send_release(
        &mut self,
        server: &Server,
        ending: &Ending,
        retry_for: Duration,
    ) -> Result<ReleaseReply, StoreError> {
        let retry_until = Instant::now() + retry_for;
        let mut backoff = Backoff::new();
        let requests = server.requests(request_timeout(self.lease.ttl));
        loop {
            let cached = self.cached.take();
            match requests.release(&self.key, &self.lease, ending, cached.as_ref()).await {
                // An earlier request may have ended it, and its answer was lost.
                Ok(answer) if answer.reply == ReleaseReply::NotHeld && backoff.failed() => {
                    return Ok(ReleaseReply::Released);
                }
                Ok(answer) => return Ok(answer.reply),
                Err(error) if Instant::now() >= retry_until => return Err(error),
                Err(_) => tokio::time::sleep(backoff.next()).await,
            }
        }
    }
}
