//! For how long a tick is claimed, and what the claim waits for meanwhile.

use std::sync::Arc;
use std::time::Duration;

use singleton_jobs_policy::timing::slack;
use singleton_jobs_policy::{Missed, Overlap};

use super::report;
use crate::Timestamp;
use crate::fleet::Holder;
use crate::job::Job;
use crate::observe::event::SkipReason;
use crate::server::{RunPermit, Server};
use crate::store::{StoreError, TickClaim};
use crate::util::backoff::Backoff;

/// The shortest pause after the store refused a claim: the cause of a refusal rarely goes away by itself.
const AFTER_A_REFUSAL: Duration = Duration::from_secs(15);

/// The time in which a tick may start.
pub(crate) struct ClaimWindow<'a> {
    job: &'a Job,
    tick: Timestamp,
    takes_over: bool,
    /// The end of the tick's grace.
    in_time: Timestamp,
    backoff: Backoff,
}

impl<'a> ClaimWindow<'a> {
    pub(crate) fn new(job: &'a Job, claim: &TickClaim) -> Self {
        let &TickClaim { tick, delay, grace, only_takes_over: takes_over, .. } = claim;
        Self { job, tick, takes_over, in_time: tick + delay + grace, backoff: Backoff::new() }
    }

    /// The latest start; `None` for a missed tick that runs once and for a takeover, which may start at any
    /// time.
    fn last_start(&self) -> Option<Timestamp> {
        let bounded = !self.takes_over && self.job.policy.missed == Missed::Skip;
        bounded.then_some(self.in_time)
    }

    /// Waits for a free permit; `None` if none became free in time.
    pub(crate) async fn wait_for_permit(&self, server: &Server) -> Option<RunPermit> {
        // Boxed, like every wait here: the future of a claim that need not wait stays small.
        Box::pin(async {
            tokio::select! {
                biased;
                permit = server.permit(self.last_start()) => permit,
                () = self.is_pointless(server) => None,
            }
        })
        .await
    }

    /// Pauses until the time has passed, a run has ended on this server, or there is a reason to stop.
    pub(crate) async fn pause(&self, server: &Server, pause: Duration, released: i64) {
        Box::pin(async {
            tokio::select! {
                biased;
                () = self.is_pointless(server) => {}
                () = self.job.activity.released.exceeds(released) => {}
                () = tokio::time::sleep(pause) => {}
            }
        })
        .await;
    }

    /// Waits until the application's runtime polls tasks, or until there is a reason to stop.
    pub(crate) async fn wait_for_application(&self, server: &Server) {
        Box::pin(async {
            tokio::select! {
                biased;
                () = self.is_pointless(server) => {}
                () = server.application_answers() => {}
            }
        })
        .await;
    }

    /// Resolves when there is a reason to stop.
    async fn is_pointless(&self, server: &Server) {
        tokio::select! {
            biased;
            () = server.no_new_runs.raised() => {}
            () = self.job.superseded(self.tick), if !self.takes_over => {}
        }
    }

    pub(crate) fn reason_to_stop(&self, server: &Server) -> Option<SkipReason> {
        if server.no_new_runs.is_raised() {
            return Some(SkipReason::Stopping);
        }
        // Checked first, since `is_pointless` resolves for it: a claim that waits on would be woken for it
        // again.
        let newest = Timestamp::from_micros(self.job.activity.newest.get());
        if newest > self.tick && !self.takes_over {
            return Some(SkipReason::Superseded(newest));
        }
        self.job.activity.has_unleased_run().then_some(SkipReason::StillRunning)
    }

    /// The time until the holder may be gone; `None` if this tick does not wait for it.
    ///
    /// A run that ends on this server is noticed at once. Of other servers' runs only the end of the lease is
    /// known; servers that take a tick over come first then.
    pub(crate) fn wait_for_holder(&self, holder: &Holder, now: Timestamp) -> Option<Duration> {
        let missed = self.last_start().is_none() && now > self.in_time;
        if !missed && self.job.policy.overlap == Overlap::Skip {
            return None;
        }
        let ttl = self.job.policy.ttl;
        let wait = holder.remaining.unwrap_or(ttl).min(ttl) + 2 * slack(ttl);
        match self.last_start() {
            None => Some(wait),
            // One last claim while the tick can still start.
            Some(last) => Some(wait.min((last - slack(ttl)).since(now))).filter(|wait| !wait.is_zero()),
        }
    }

    /// The time to wait for a run on this server that has lost its lease; `None` if this tick does not wait
    /// for it.
    pub(crate) fn wait_for_own_run(&self, server: &Server) -> Option<Duration> {
        match self.last_start() {
            None => Some(self.job.policy.ttl),
            Some(_) if self.job.policy.overlap == Overlap::Skip => None,
            Some(last) => Some(last.since(server.time.now())).filter(|wait| !wait.is_zero()),
        }
    }

    /// The pause before the store is asked again; `None` if that would be too late.
    pub(crate) fn pause_after(&mut self, server: &Arc<Server>, error: &StoreError) -> Option<Duration> {
        let soon = error.kind().is_retryable();
        let pause = if soon { self.backoff.next() } else { self.backoff.next().max(AFTER_A_REFUSAL) };
        let now = server.time.now();
        match self.last_start() {
            Some(last) => Some(pause).filter(|pause| soon && now + *pause < last),
            None => {
                if !self.takes_over && now > self.in_time {
                    report::overdue(server, self.job, self.tick);
                }
                Some(pause)
            }
        }
    }
}
