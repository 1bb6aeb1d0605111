//! The health of a scheduler.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use crate::Timestamp;
use crate::store::{StoreError, StoreErrorKind, step};
use crate::util::lock;

/// The state of a scheduler, as [`Jobs::health`](crate::Jobs::health) returns it.
///
/// Probes of an orchestrator ask two different questions:
///
/// | probe | use | it fails while |
/// |---|---|---|
/// | readiness of a worker that only runs jobs | [`is_ready`](Health::is_ready) | jobs cannot start here |
/// | readiness of a service that also answers requests | not [`is_terminating`](Health::is_terminating), and its own checks | it terminates |
/// | liveness, of either | [`is_alive`](Health::is_alive) | only a restart helps |
///
/// A service that answers requests must not use `is_ready` as its readiness probe: when the store is unreachable, it is
/// unreachable for all servers at once, and the orchestrator would take all of them out of service. Jobs wait for the store by
/// themselves. For the same reason such a service starts with
/// [`allow_degraded_start`](crate::Builder::allow_degraded_start), so that it can start during an outage of the store, and
/// alerts on [`StoreUnavailable`](Health::StoreUnavailable). A worker does without: a start that fails is visible in the
/// deployment, and there is nothing else that it could do.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Health {
    /// Jobs can start: the store answered its last request.
    Ready,
    /// The store is unreachable, refuses requests, or did not decide a job's last tick while it could still start. Every tick
    /// tries again.
    StoreUnavailable {
        /// Since when, by this machine's clock.
        since: Timestamp,
        /// The kind of the error.
        kind: StoreErrorKind,
        /// The last error.
        error: String,
    },
    /// The application's runtime polls no tasks, so this server claims nothing.
    ApplicationBlocked {
        /// The time since it was last seen to poll one.
        blocked_for: Duration,
    },
    /// No further run starts here, because of [`Jobs::stop_claiming`](crate::Jobs::stop_claiming) or a shutdown; runs in
    /// progress continue. A readiness probe fails, so that no new connections arrive; a liveness probe succeeds, so that the
    /// process has its time to finish.
    Stopping,
    /// The scheduler has ended, by a shutdown or a failure. [`Jobs::closed`](crate::Jobs::closed) returns which.
    Stopped,
}

/// An application that is blocked for this long does not recover by itself.
const HUNG_AFTER: Duration = Duration::from_secs(30);

impl Health {
    /// Whether jobs can start. For the readiness probe of a worker; see the [table](Health).
    pub fn is_ready(&self) -> bool {
        *self == Self::Ready
    }

    /// Whether this server shuts down or has ended: it starts no further run, and never will. For the readiness probe of a
    /// service that also answers requests.
    pub fn is_terminating(&self) -> bool {
        matches!(self, Self::Stopping | Self::Stopped)
    }

    /// Whether the scheduler works or will work again without a restart. For a liveness probe.
    ///
    /// It is `false` when the scheduler has ended, and when the application's runtime has polled no task for 30 s. An
    /// unreachable store does not count: a restart would not bring it back.
    pub fn is_alive(&self) -> bool {
        match self {
            Self::Stopped => false,
            Self::ApplicationBlocked { blocked_for } => *blocked_for < HUNG_AFTER,
            Self::Ready | Self::StoreUnavailable { .. } | Self::Stopping => true,
        }
    }
}

#[derive(Default)]
pub(crate) struct HealthCell {
    store: Mutex<Option<StoreFailure>>,
    /// The jobs, by key, whose last tick the store did not decide while it could still start.
    jobs: Mutex<BTreeMap<String, StoreFailure>>,
}

#[derive(Clone)]
struct StoreFailure {
    since: Timestamp,
    kind: StoreErrorKind,
    error: String,
    /// The step that the store answered with a refusal: the success of another step does not end this failure.
    refused: Option<&'static str>,
}

impl HealthCell {
    /// Records a successful step, and returns whether it ends a failure. A full store still extends and releases; only a claim
    /// shows that jobs can start again.
    pub(crate) fn store_answered(&self, step: &'static str) -> bool {
        let over = |failure: &mut StoreFailure| {
            failure.refused.is_none_or(|refused| refused == step || step == step::CLAIM)
        };
        self.failure().take_if(over).is_some()
    }

    /// Records a failed step, and returns whether it is the first one. Each tick reports what that means for it.
    pub(crate) fn store_failed(&self, step: &'static str, error: &StoreError) -> bool {
        let answered = !matches!(
            error.kind(),
            StoreErrorKind::Unreachable | StoreErrorKind::TimedOut | StoreErrorKind::Untrusted
        );
        let mut failure = self.failure();
        let since = failure.as_ref().map_or_else(Timestamp::now, |failure| failure.since);
        let new = StoreFailure {
            since,
            kind: error.kind(),
            error: error.to_string(),
            refused: answered.then_some(step),
        };
        failure.replace(new).is_none()
    }

    /// Records that a tick of this job was skipped because of a lasting error.
    pub(crate) fn job_failed(&self, key: &str, error: &StoreError) {
        let mut jobs = self.jobs();
        let since = jobs.get(key).map_or_else(Timestamp::now, |failure| failure.since);
        let failure = StoreFailure { since, kind: error.kind(), error: error.to_string(), refused: None };
        jobs.insert(key.to_owned(), failure);
    }

    /// Records that the store has decided a tick of this job.
    pub(crate) fn job_answered(&self, key: &str) {
        let mut jobs = self.jobs();
        if !jobs.is_empty() {
            jobs.remove(key);
        }
    }

    pub(crate) fn get(&self) -> Health {
        let lasting = || self.jobs().values().min_by_key(|failure| failure.since).cloned();
        match self.failure().clone().or_else(lasting) {
            None => Health::Ready,
            Some(StoreFailure { since, kind, error, .. }) => Health::StoreUnavailable { since, kind, error },
        }
    }

    fn failure(&self) -> MutexGuard<'_, Option<StoreFailure>> {
        lock(&self.store)
    }

    fn jobs(&self) -> MutexGuard<'_, BTreeMap<String, StoreFailure>> {
        lock(&self.jobs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restart_is_asked_for_only_where_it_helps() {
        let blocked = |secs| Health::ApplicationBlocked { blocked_for: Duration::from_secs(secs) };
        let unreachable = Health::StoreUnavailable {
            since: Timestamp::now(),
            kind: StoreErrorKind::Unreachable,
            error: "connection refused".to_owned(),
        };
        let alive = [Health::Ready, unreachable, Health::Stopping, blocked(5)];
        assert!(alive.iter().all(Health::is_alive), "{alive:?}");
        assert!(![Health::Stopped, blocked(30)].iter().any(Health::is_alive));
        let terminating = |health: &&Health| health.is_terminating();
        assert_eq!(alive.iter().filter(terminating).count(), 1, "stopping");
        assert!(alive[0].is_ready() && !alive[1..].iter().any(Health::is_ready));
    }
}
