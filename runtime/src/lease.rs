//! A lease while it is held: kept alive, and released only when its run is gone.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::backoff::Backoff;
use crate::claim::request_timeout;
use crate::event::RunRef;
use crate::job::Job;
use crate::proof::Proof;
use crate::server::Server;
use crate::store::model::UNKNOWN_FENCE;
use crate::store::{Claim, Ending, ExtendReply, Lease, ReleaseReply, Won};
use crate::store_time::Moment;
use crate::{Run, Timestamp};

pub(crate) struct HeldLease {
    job: Arc<Job>,
    lease: Lease,
    proof: Arc<Proof>,
}

/// While a run goes on the clocks are compared at least this often, to notice a suspend.
const LOOK: Duration = Duration::from_secs(1);

/// A release is tried this long: the lock expires by itself, but the record does not write itself.
const RELEASE_FOR: Duration = Duration::from_secs(600);

impl HeldLease {
    /// A claim was won, by the answer to a request that was sent then.
    pub(crate) fn won(
        server: &Server,
        job: &Arc<Job>,
        claim: Claim,
        won: Won,
        sent: Moment,
        at: Timestamp,
    ) -> Self {
        Self::new(server, job, Lease::won(claim, won), sent, won.until.since(at))
    }

    /// A request without an answer may have won: releases whatever it won, beside everything else.
    pub(crate) fn give_back(server: &Arc<Server>, job: &Arc<Job>, claim: Claim) {
        let (server, job) = (server.clone(), job.clone());
        server.clone().spawn(async move {
            let unknown = Timestamp::default();
            let won = Won {
                fence: UNKNOWN_FENCE,
                attempt: 0,
                since: unknown,
                until: unknown,
                missed_after: None,
                usual: None,
            };
            let held = Self::won(&server, &job, claim, won, server.time.moment(), unknown);
            held.release(&server, None, &Ending::not_started(server.remember)).await;
        });
    }

    fn new(server: &Server, job: &Arc<Job>, lease: Lease, sent: Moment, remaining: Duration) -> Self {
        let margin = job.policy.lease_margin();
        let proof = Proof::new(server.time.wall().clone(), job.policy.keep_alive, margin, sent, remaining);
        Self { job: job.clone(), lease, proof: Arc::new(proof) }
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

    /// Extends the lease every third of its ttl until the run has ended or the lease is lost. A failed
    /// extension is tried again until the proof runs out. What the run says of itself goes along.
    pub(crate) async fn keep_alive(&mut self, server: &Server, run: &Run, ended: &Notify) {
        if !self.job.policy.keep_alive {
            return self.wait_for_the_end(ended).await;
        }
        let mut due = self.next_extension();
        let mut backoff = Backoff::new();
        loop {
            let wake = due.min(self.proof.deadline()).min(Instant::now() + LOOK);
            tokio::select! {
                () = ended.notified() => return,
                () = tokio::time::sleep_until(wake) => {}
                () = self.proof.in_doubt() => due = Instant::now(),
            }
            if self.proof.is_lost() {
                return self.proof.lose();
            }
            if self.proof.is_doubtful() {
                due = Instant::now();
            }
            if Instant::now() < due {
                continue;
            }
            self.lease.progress = run.said();
            due = match self.extend(server).await {
                Ok(true) => {
                    backoff.reset();
                    self.next_extension()
                }
                Ok(false) => return self.proof.lose(),
                Err(()) => Instant::now() + backoff.next().min(self.lease.ttl / 20),
            };
        }
    }

    /// A third of the ttl after the last confirmation; sooner for a lease that was won again with little left.
    fn next_extension(&self) -> Instant {
        let confirmed = self.proof.confirmed_at();
        confirmed + (self.lease.ttl / 3).min(self.proof.deadline().duration_since(confirmed) / 2)
    }

    async fn wait_for_the_end(&self, ended: &Notify) {
        while !self.proof.is_lost() {
            let wake = self.proof.deadline().min(Instant::now() + LOOK);
            tokio::select! {
                () = ended.notified() => return,
                () = tokio::time::sleep_until(wake) => {}
            }
        }
        self.proof.lose();
    }

    /// `Err` for a store that did not answer: its last word still counts.
    async fn extend(&mut self, server: &Server) -> Result<bool, ()> {
        let sent = server.time.moment();
        let within = request_timeout(self.lease.ttl).min(self.proof.deadline().duration_since(sent.steady));
        let request = server.store.extend(&self.job.policy.key, &self.lease);
        let answer = server.ask("extend", within, request).await.map_err(drop)?;
        let key = &self.job.policy.key;
        let until = match answer.reply {
            ExtendReply::Kept(until) => until,
            ExtendReply::Restored(until) => {
                let fence = self.lease.fence;
                tracing::warn!(target: "jobs", key, fence, "[{key}] the store had lost this run's lease; it was put back");
                until
            }
            ExtendReply::Lost => return Ok(false),
        };
        self.lease.until = until;
        self.proof.confirm(sent, until.since(answer.at));
        Ok(true)
    }

    /// Ends a lease under which nothing was started.
    pub(crate) async fn give_up(self, server: &Server) {
        Box::pin(self.release(server, None, &Ending::not_started(server.remember))).await;
    }

    /// Ends the lease and records its run. Only for a run whose future is gone.
    pub(crate) async fn release(mut self, server: &Server, run: Option<&Run>, ending: &Ending) {
        self.lease.progress = run.and_then(Run::said);
        let key = &self.job.policy.key;
        // Of a claim that may have won nobody needs a record: after a ttl there is nothing left to release.
        let abandoned = self.lease.fence == UNKNOWN_FENCE;
        let give_up = Instant::now() + if abandoned { self.lease.ttl } else { RELEASE_FOR };
        let mut backoff = Backoff::new();
        loop {
            let request = server.store.release(key, &self.lease, ending);
            match server.ask("release", request_timeout(self.lease.ttl), request).await {
                Ok(answer) => {
                    if answer.reply == ReleaseReply::NotHeld {
                        tracing::debug!(target: "jobs", key, "[{key}] the lease had ended before it was released");
                    }
                    return;
                }
                Err(_) if abandoned && (Instant::now() >= give_up || server.stop.is_cancelled()) => return,
                Err(error) if Instant::now() >= give_up => {
                    let outcome = ending.outcome.as_str();
                    return tracing::error!(
                        target: "jobs", key, outcome, %error,
                        "[{key}] the end of this run could not be recorded; its lock expires by itself"
                    );
                }
                Err(_) => tokio::time::sleep(backoff.next()).await,
            }
        }
    }
}
