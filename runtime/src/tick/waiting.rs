//! For how long a claim is worth repeating.

use std::time::Duration;

use singleton_jobs_policy::timing::slack;
use singleton_jobs_policy::{Missed, Overlap};

use super::claim::{Ask, Purpose};
use super::report;
use crate::Timestamp;
use crate::fleet::Holder;
use crate::job::Job;
use crate::observe::event::SkipReason;
use crate::server::{Server, Slot};
use crate::store::StoreError;
use crate::util::backoff::Backoff;

/// A store that refuses will not change its mind in a moment.
const AFTER_A_REFUSAL: Duration = Duration::from_secs(15);

/// One claim that may have to wait.
pub(crate) struct Waiting<'a> {
    job: &'a Job,
    ask: Ask,
    in_time: Timestamp,
    pub(crate) backoff: Backoff,
}

impl<'a> Waiting<'a> {
    pub(crate) fn new(job: &'a Job, ask: Ask) -> Self {
        let in_time = ask.tick.plus(job.policy.delay_of(ask.tick)).plus(ask.grace);
        Self { job, ask, in_time, backoff: Backoff::new() }
    }

    /// A missed tick that runs once, and one that is taken over, may start at any time.
    pub(crate) fn last_start(&self) -> Option<Timestamp> {
        let bounded = self.ask.purpose == Purpose::Due && self.job.policy.missed == Missed::Skip;
        bounded.then_some(self.in_time)
    }

    /// A place among the runs, if one comes free before that is pointless.
    pub(crate) async fn for_a_slot(&self, server: &Server) -> Option<Slot> {
        // Boxed, like every wait here: a claim that need not wait stays small.
        Box::pin(async {
            tokio::select! {
                biased;
                slot = server.slot(self.last_start()) => slot,
                () = self.is_pointless(server) => None,
            }
        })
        .await
    }

    /// Lets so much time pass, or less: until a run has ended here, or until there is a reason to stop.
    pub(crate) async fn pause(&self, server: &Server, pause: Duration, released: i64) {
        Box::pin(async {
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.is_pointless(server) => {}
                () = self.job.here.released.exceeds(released) => {}
            }
        })
        .await;
    }

    /// Waits until the application could start what is won, or until there is a reason to stop.
    pub(crate) async fn for_the_application(&self, server: &Server) {
        Box::pin(async {
            tokio::select! {
                () = server.application_answers() => {}
                () = self.is_pointless(server) => {}
            }
        })
        .await;
    }

    /// Resolves when there is a reason to stop.
    async fn is_pointless(&self, server: &Server) {
        tokio::select! {
            () = server.stop.raised() => {}
            () = self.job.superseded(self.ask.tick), if self.ask.purpose == Purpose::Due => {}
        }
    }

    pub(crate) fn reason_to_stop(&self, server: &Server) -> Option<SkipReason> {
        if server.stop.is_raised() {
            return Some(SkipReason::Stopping);
        }
        // First, since it is what `is_pointless` resolves for: whoever waits on must not be woken for it again.
        let newest = Timestamp::from_micros(self.job.here.newest.get());
        if newest > self.ask.tick && self.ask.purpose == Purpose::Due {
            return Some(SkipReason::Superseded(newest));
        }
        self.job.here.has_astray_run().then_some(SkipReason::StillRunning)
    }

    /// How long until the holder may be gone; `None` if this tick does not wait for it.
    ///
    /// A run that ends on this server is noticed at once. Of others only the end of the lease is known; servers
    /// that take a tick over come first then.
    pub(crate) fn time_to_wait_for(&self, holder: &Holder, now: Timestamp) -> Option<Duration> {
        let missed = self.last_start().is_none() && now > self.in_time;
        if !missed && self.job.policy.overlap == Overlap::Skip {
            return None;
        }
        let ttl = self.job.policy.ttl;
        let wait = holder.remaining.unwrap_or(ttl).min(ttl) + 2 * slack(ttl);
        match self.last_start() {
            None => Some(wait),
            // One last question while the tick can still start.
            Some(last) => Some(wait.min(last.minus(slack(ttl)).since(now))).filter(|wait| !wait.is_zero()),
        }
    }

    /// How long to wait for a run of this server's own that has lost its lease; `None` if this tick does not wait.
    pub(crate) fn time_for_own_run(&self, server: &Server) -> Option<Duration> {
        match self.last_start() {
            None => Some(self.job.policy.ttl),
            Some(_) if self.job.policy.overlap == Overlap::Skip => None,
            Some(last) => Some(last.since(server.time.now())).filter(|wait| !wait.is_zero()),
        }
    }

    /// How long until the store is asked again; `None` if that would be too late.
    pub(crate) fn pause_after(&mut self, server: &Server, error: &StoreError) -> Option<Duration> {
        let soon = error.kind().is_retryable();
        let pause = if soon { self.backoff.next() } else { self.backoff.next().max(AFTER_A_REFUSAL) };
        let now = server.time.now();
        match self.last_start() {
            Some(last) => Some(pause).filter(|pause| soon && now.plus(*pause) < last),
            None => {
                if self.ask.purpose == Purpose::Due && now > self.in_time {
                    report::overdue(server, self.job, self.ask.tick);
                }
                Some(pause)
            }
        }
    }
}
