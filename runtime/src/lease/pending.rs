//! A claim whose outcome is not known yet.

use std::sync::Arc;

use singleton_jobs_policy::timing::request_timeout;

use super::HeldLease;
use crate::Timestamp;
use crate::history::RunOutcome;
use crate::server::{FailOnPanic, Server};
use crate::store::{
    Claim, ClaimDecision, ClaimReply, Ending, Lease, RegisteredSchedule, StoreError, TimedReply,
    UnansweredSwaps,
};

/// One claim through all its requests. Every request carries the same token, so a request whose answer was
/// lost can be repeated: it wins again, or learns that it lost.
///
/// When it is dropped with an unanswered request, a task releases whatever that request may win.
pub(crate) struct PendingClaim {
    server: Arc<Server>,
    key: Arc<str>,
    kept_alive: bool,
    claim: Claim,
    is_new: bool,
    outstanding: UnansweredSwaps,
    other_schedule: Option<RegisteredSchedule>,
}

/// The store's decision on a claim.
pub(crate) enum ClaimResult {
    /// The key is held.
    Won(HeldLease),
    /// The key was won, but the answer came too late to rely on it: the lease must be released.
    TooLate(HeldLease),
    /// The key was not won, at this instant of the store's clock.
    Refused(ClaimReply, Timestamp),
}

impl PendingClaim {
    pub(crate) fn new(
        server: &Arc<Server>,
        key: impl Into<Arc<str>>,
        kept_alive: bool,
        claim: Claim,
    ) -> Self {
        let (server, key) = (server.clone(), key.into());
        let outstanding = UnansweredSwaps::of(claim.token.clone());
        Self { server, key, kept_alive, claim, is_new: true, outstanding, other_schedule: None }
    }

    /// The claim, to be adjusted between two requests.
    pub(crate) fn claim_mut(&mut self) -> &mut Claim {
        &mut self.claim
    }

    /// Takes the schedule of another server that the last answer showed, if it differs from this server's.
    pub(crate) fn take_other_schedule(&mut self) -> Option<RegisteredSchedule> {
        self.other_schedule.take()
    }

    /// Sends the claim to the store. After an error it can be sent again.
    pub(crate) async fn ask(&mut self) -> Result<ClaimResult, StoreError> {
        let is_new = std::mem::replace(&mut self.is_new, false);
        let requests = self.server.requests(request_timeout(self.claim.ttl));
        let mut answer = requests.claim(&self.key, &self.claim, is_new, &mut self.outstanding).await?;
        self.other_schedule = answer.reply.other_schedule.take();
        let TimedReply { reply: ClaimReply { decision: ClaimDecision::Won(won), .. }, now, sent, written } =
            answer
        else {
            return Ok(ClaimResult::Refused(answer.reply, answer.now));
        };
        let answer = TimedReply { reply: won, now, sent, written };
        let held = HeldLease::new(&self.server, self.key.clone(), self.kept_alive, answer);
        // Requests sent before expect another record. One that expects none can still be applied after a
        // quick release of a manual lock: it holds the key for a ttl and starts nothing.
        self.outstanding = UnansweredSwaps::default();
        Ok(if held.validity().is_lost() { ClaimResult::TooLate(held) } else { ClaimResult::Won(held) })
    }
}

impl Drop for PendingClaim {
    fn drop(&mut self) {
        if !self.outstanding.exists() {
            return;
        }
        let (server, key) = (self.server.clone(), self.key.clone());
        let outstanding = std::mem::take(&mut self.outstanding);
        let unknown = Timestamp::default();
        let lease = Lease::claimed(&self.claim, unknown, unknown);
        server.clone().spawn(async move {
            let _fail_on_panic = FailOnPanic(server.clone());
            release_unanswered(&server, &key, lease, outstanding).await;
        });
    }
}

/// Asks until nothing can be held any more. Every lease has expired after two ttls.
async fn release_unanswered(server: &Server, key: &str, lease: Lease, mut outstanding: UnansweredSwaps) {
    let retry_until = tokio::time::Instant::now() + 2 * lease.ttl;
    let ending = Ending::of(RunOutcome::NotStarted, server.history_limit);
    let requests = server.requests(request_timeout(lease.ttl));
    let mut backoff = crate::util::backoff::Backoff::new();
    while tokio::time::Instant::now() < retry_until {
        let pause = match requests.release_unanswered(key, &lease, &ending, &mut outstanding).await {
            Ok(None) => return,
            Ok(Some(pause)) => pause,
            Err(_) if server.shutting_down.is_raised() => return,
            Err(_) => backoff.next(),
        };
        let left = retry_until.saturating_duration_since(tokio::time::Instant::now());
        tokio::select! {
            biased;
            // The server is about to end: a request that is applied later holds the key for a ttl and starts
            // nothing.
            () = server.cancel_runs.raised() => {
                drop(requests.release_unanswered(key, &lease, &ending, &mut outstanding).await);
                return;
            }
            () = tokio::time::sleep(pause.min(left)) => {}
        }
    }
}
