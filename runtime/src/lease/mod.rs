//! A lease while it is held: kept alive, and released only when its run is gone.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use singleton_jobs_policy::timing::{margin, request_timeout};
use tokio::time::Instant;

use crate::history::{RunOutcome, RunRecord};
use crate::observe::event::RunRef;
use crate::server::{NeverSilently, Server};
use crate::store::{
    CachedRecord, ClaimAnswer, Ending, ExtendReply, Gap, Lease, ReleaseReply, StoreError, StoreErrorKind,
    TimedReply,
};
use crate::util::backoff::Backoff;
use crate::util::watched::Flag;
use crate::{Run, Timestamp};
use validity::Proof;

mod pending;
pub(crate) mod store_clock;
pub(crate) mod validity;

pub(crate) use pending::{Asked, PendingClaim};

pub(crate) struct HeldLease {
    key: Arc<str>,
    kept_alive: bool,
    lease: Lease,
    proof: Arc<Proof>,
    /// An operator wants the run cancelled.
    cancelled: Arc<Flag>,
    /// The record as it was written last: while nothing changes it, an extension needs no look.
    cached: Option<CachedRecord>,
}

/// While a run is in progress the clocks are compared at least this often, to notice a suspend.
const LOOK: Duration = Duration::from_secs(1);

/// A release is tried this long: the lock expires by itself, but the record does not write itself.
const RELEASE_FOR: Duration = Duration::from_secs(600);

impl HeldLease {
    /// A claim was won, with this answer.
    fn new(
        server: &Server,
        key: Arc<str>,
        kept_alive: bool,
        lease: Lease,
        answer: TimedReply<ClaimAnswer>,
    ) -> Self {
        // A store whose clock went back would grant more.
        let remaining = lease.until.since(answer.now).min(lease.ttl);
        let proof = Arc::new(Proof::new(&server.time, kept_alive, margin(lease.ttl), answer.sent, remaining));
        Self { key, kept_alive, lease, proof, cancelled: Arc::default(), cached: answer.written }
    }

    pub(crate) fn run_ref(&self) -> RunRef {
        RunRef { tick: self.lease.tick, fence: self.lease.fence, attempt: self.lease.attempt }
    }

    pub(crate) fn proof(&self) -> &Arc<Proof> {
        &self.proof
    }

    pub(crate) fn cancelled(&self) -> &Arc<Flag> {
        &self.cancelled
    }

    /// The record of its run.
    pub(crate) fn record(&self, run: &Run, ended: Timestamp, ending: &Ending) -> RunRecord {
        RunRecord { progress: run.said(), ..RunRecord::of(&self.lease, ended, ending) }
    }

    /// Extends the lease every third of its ttl until something happens, which is returned, or until the lease is lost.
    /// A failed extension is tried again until the proof runs out. What the run says of itself goes along.
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
            let look = self.proof.deadline().min(Instant::now() + LOOK);
            let wake = if self.kept_alive { look.min(due) } else { look };
            tokio::select! {
                happened = &mut until => return Some(happened),
                () = tokio::time::sleep_until(wake) => {}
                () = self.proof.in_doubt() => due = Instant::now(),
            }
            if self.proof.is_lost() {
                self.proof.lose();
                return None;
            }
            if self.proof.is_doubtful() {
                due = Instant::now();
            }
            if !self.kept_alive || Instant::now() < due {
                continue;
            }
            self.lease.progress = run.and_then(Run::said);
            due = match self.extend(server).await {
                Ok(Extended::Kept { cancelled_by }) => {
                    if let Some(by) = cancelled_by.filter(|_| !self.cancelled.is_raised()) {
                        let key = &*self.key;
                        tracing::info!(target: "jobs", key, by = &*by, "[{key}] {by} asks to cancel the run");
                        self.cancelled.raise();
                    }
                    backoff.reset();
                    self.next_extension()
                }
                Ok(Extended::Lost { broken_by }) => {
                    if let Some(by) = broken_by {
                        let key = &*self.key;
                        tracing::warn!(target: "jobs", key, by = &*by, "[{key}] the lease was broken by {by}");
                    }
                    self.proof.lose();
                    return None;
                }
                Err(_) => Instant::now() + backoff.next().min(self.lease.ttl / 20),
            };
        }
    }

    /// A third of the ttl after the last confirmation; sooner for a lease that was won again with little left.
    fn next_extension(&self) -> Instant {
        let confirmed = self.proof.confirmed_at();
        confirmed + (self.lease.ttl / 3).min(self.proof.deadline().duration_since(confirmed) / 2)
    }

    /// These missed ticks were reported: the store need not keep them any longer.
    pub(crate) fn reported_missed(&mut self, gaps: &[Gap]) {
        self.lease.reported = gaps.iter().map(|gap| gap.before).max();
    }

    /// Whether the store still has the lease. `Err` if it did not answer: what it said last still counts.
    pub(crate) async fn extend(&mut self, server: &Server) -> Result<Extended, StoreError> {
        let requests = server.requests(request_timeout(self.lease.ttl));
        let key = &*self.key;
        // An extension without an answer may have been applied: then the record is another one. And after a suspend the time
        // since the last answer is not known.
        let cached = self.cached.take().filter(|_| !self.proof.is_doubtful());
        let extending = requests.extend(key, &self.lease, cached.as_ref());
        // However many requests it takes: at the deadline the holder has to know.
        let Ok(answer) = tokio::time::timeout_at(self.proof.deadline(), extending).await else {
            let (kind, location) = (StoreErrorKind::TimedOut, server.store.location());
            return Err(StoreError::new(kind, "extend", location, "no answer before the lease may end"));
        };
        let answer = answer?;
        let (until, cancelled_by) = match answer.reply {
            ExtendReply::Kept { until, cancelled_by } => (until, cancelled_by),
            ExtendReply::Restored(until) => {
                let fence = self.lease.fence;
                tracing::warn!(target: "jobs", key, fence, "[{key}] the store had lost this lease; it was put back");
                (until, None)
            }
            ExtendReply::Lost { broken_by } => return Ok(Extended::Lost { broken_by }),
        };
        self.cached = answer.written;
        self.lease.until = until;
        self.proof.confirm(answer.sent, until.since(answer.now).min(self.lease.ttl));
        Ok(Extended::Kept { cancelled_by })
    }

    /// From now on each extension lasts so long. Until one is confirmed the shorter of both counts, whatever the store
    /// has heard of it.
    pub(crate) fn set_ttl(&mut self, server: &Server, ttl: Duration) {
        self.lease.ttl = ttl;
        // A lease that ended earlier than its holder knows must not be restored after its successor.
        self.lease.until = self.lease.until.min(server.time.now().plus(ttl));
        self.proof.set_ttl(server.time.moment(), margin(ttl), ttl);
    }

    /// Ends a lease under which nothing was started, beside everything else.
    pub(crate) fn give_up(self, server: &Arc<Server>) {
        let server = server.clone();
        server.clone().spawn(async move {
            let _never_silently = NeverSilently(server.clone());
            self.release(&server, None, &Ending::of(RunOutcome::NotStarted, server.remember)).await;
        });
    }

    /// Ends the lease and records its run. Only for a run whose future is gone.
    pub(crate) async fn release(mut self, server: &Server, run: Option<&Run>, ending: &Ending) {
        self.lease.progress = run.and_then(Run::said);
        let reply = self.end(server, ending, RELEASE_FOR).await;
        let key = &*self.key;
        match reply {
            Ok(ReleaseReply::NotHeld) => {
                tracing::debug!(target: "jobs", key, "[{key}] the lease had ended before it was released");
            }
            Err(error) => {
                let outcome = ending.outcome.as_str();
                tracing::error!(
                    target: "jobs", key, outcome, %error,
                    "[{key}] the end of this run could not be recorded; its lock expires by itself"
                );
            }
            Ok(_) => {}
        }
    }

    /// The same for a lock by hand, of which nobody needs a record: after a ttl there is nothing left to release.
    /// `false` if it had ended before.
    pub(crate) async fn let_go(
        mut self,
        server: &Server,
        run: Option<&Run>,
        ending: &Ending,
    ) -> Result<bool, StoreError> {
        self.lease.progress = run.and_then(Run::said);
        let reply = self.end(server, ending, self.lease.ttl).await?;
        Ok(reply != ReleaseReply::NotHeld)
    }

    /// Asks until the store has answered, or so much time has passed.
    async fn end(
        &mut self,
        server: &Server,
        ending: &Ending,
        patience: Duration,
    ) -> Result<ReleaseReply, StoreError> {
        let give_up = Instant::now() + patience;
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
                Err(error) if Instant::now() >= give_up => return Err(error),
                Err(_) => tokio::time::sleep(backoff.next()).await,
            }
        }
    }
}

/// The answer to an extension.
pub(crate) enum Extended {
    Kept {
        /// The server of an operator who wants the run cancelled.
        cancelled_by: Option<Arc<str>>,
    },
    Lost {
        /// The server of the operator who broke the lease.
        broken_by: Option<Arc<str>>,
    },
}
