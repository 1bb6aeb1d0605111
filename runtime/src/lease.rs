//! A lease while it is held: kept alive, and released only when its run is gone.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::backoff::Backoff;
use crate::claim::request_timeout;
use crate::event::RunRef;
use crate::proof::Proof;
use crate::server::{NeverSilently, Server};
use crate::store::model::UNKNOWN_FENCE;
use crate::store::{Claim, Ending, ExtendReply, Lease, ReleaseReply, StoreError, Won};
use crate::store_time::Moment;
use crate::{Run, Timestamp};

pub(crate) struct HeldLease {
    key: Arc<str>,
    kept_alive: bool,
    lease: Lease,
    proof: Arc<Proof>,
}

/// While a run goes on the clocks are compared at least this often, to notice a suspend.
const LOOK: Duration = Duration::from_secs(1);

/// A release is tried this long: the lock expires by itself, but the record does not write itself.
const RELEASE_FOR: Duration = Duration::from_secs(600);

/// How long before its lease may end a holder stops to rely on it.
fn margin(ttl: Duration) -> Duration {
    (ttl / 10).max(Duration::from_millis(200))
}

impl HeldLease {
    /// A claim was won, by the answer to a request that was sent then.
    pub(crate) fn won(
        server: &Server,
        key: impl Into<Arc<str>>,
        kept_alive: bool,
        claim: Claim,
        won: Won,
        sent: Moment,
        at: Timestamp,
    ) -> Self {
        let lease = Lease::won(claim, won);
        let remaining = won.until.since(at);
        let proof = Proof::new(server.time.wall().clone(), kept_alive, margin(lease.ttl), sent, remaining);
        Self { key: key.into(), kept_alive, lease, proof: Arc::new(proof) }
    }

    /// A request without an answer may have won: releases whatever it won.
    pub(crate) fn give_back(server: &Arc<Server>, key: &str, claim: Claim) {
        let unknown = Timestamp::default();
        let won = Won {
            fence: UNKNOWN_FENCE,
            attempt: 0,
            since: unknown,
            until: unknown,
            missed_after: None,
            usual: None,
        };
        Self::won(server, key, false, claim, won, server.time.moment(), unknown).give_up(server);
    }

    pub(crate) fn run_ref(&self) -> RunRef {
        RunRef { tick: self.lease.tick, fence: self.lease.fence, attempt: self.lease.attempt }
    }

    pub(crate) fn since(&self) -> Timestamp {
        self.lease.since
    }

    pub(crate) fn proof(&self) -> &Arc<Proof> {
        &self.proof
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
                Ok(true) => {
                    backoff.reset();
                    self.next_extension()
                }
                Ok(false) => {
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

    /// Whether the store still has the lease. `Err` for one that did not answer: its last word still counts.
    pub(crate) async fn extend(&mut self, server: &Server) -> Result<bool, StoreError> {
        let sent = server.time.moment();
        let within = request_timeout(self.lease.ttl).min(self.proof.deadline().duration_since(sent.steady));
        let key = &*self.key;
        let answer = server.ask("extend", within, server.store.extend(key, &self.lease)).await?;
        let until = match answer.reply {
            ExtendReply::Kept(until) => until,
            ExtendReply::Restored(until) => {
                let fence = self.lease.fence;
                tracing::warn!(target: "jobs", key, fence, "[{key}] the store had lost this lease; it was put back");
                until
            }
            ExtendReply::Lost => return Ok(false),
        };
        self.lease.until = until;
        self.proof.confirm(sent, until.since(answer.at));
        Ok(true)
    }

    /// From now on each extension lasts so long. Until one is confirmed the shorter of both counts, whatever the store
    /// has heard of it.
    pub(crate) fn set_ttl(&mut self, server: &Server, ttl: Duration) {
        self.lease.ttl = ttl;
        self.proof.set_ttl(server.time.moment(), margin(ttl), ttl);
    }

    /// Ends a lease under which nothing was started, beside everything else.
    pub(crate) fn give_up(self, server: &Arc<Server>) {
        let server = server.clone();
        server.clone().spawn(async move {
            let _never_silently = NeverSilently(server.clone());
            self.release(&server, None, &Ending::not_started(server.remember)).await;
        });
    }

    /// Ends the lease and records its run. Only for a run whose future is gone.
    pub(crate) async fn release(mut self, server: &Server, run: Option<&Run>, ending: &Ending) {
        self.lease.progress = run.and_then(Run::said);
        let key = &*self.key;
        // Of a claim that may have won nobody needs a record: after a ttl there is nothing left to release.
        let abandoned = self.lease.fence == UNKNOWN_FENCE;
        let patience = if abandoned { self.lease.ttl } else { RELEASE_FOR };
        match self.end(server, ending, patience).await {
            Ok(ReleaseReply::NotHeld) => {
                tracing::debug!(target: "jobs", key, "[{key}] the lease had ended before it was released");
            }
            Err(error) if !abandoned => {
                let outcome = ending.outcome.as_str();
                tracing::error!(
                    target: "jobs", key, outcome, %error,
                    "[{key}] the end of this run could not be recorded; its lock expires by itself"
                );
            }
            Ok(_) | Err(_) => {}
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
        &self,
        server: &Server,
        ending: &Ending,
        patience: Duration,
    ) -> Result<ReleaseReply, StoreError> {
        let abandoned = self.lease.fence == UNKNOWN_FENCE;
        let give_up = Instant::now() + patience;
        let mut backoff = Backoff::new();
        loop {
            let request = server.store.release(&self.key, &self.lease, ending);
            match server.ask("release", request_timeout(self.lease.ttl), request).await {
                // An earlier request may have ended it, and its answer was lost.
                Ok(answer) if answer.reply == ReleaseReply::NotHeld && backoff.failed() => {
                    return Ok(ReleaseReply::Released);
                }
                Ok(answer) => return Ok(answer.reply),
                Err(error) if Instant::now() >= give_up || (abandoned && server.stop.is_raised()) => {
                    return Err(error);
                }
                Err(_) => tokio::time::sleep(backoff.next()).await,
            }
        }
    }
}
