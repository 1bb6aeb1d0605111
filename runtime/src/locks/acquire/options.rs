//! The options that locks, semaphores, elections and run-once share.

use std::time::Duration;

use singleton_jobs_policy::{LockDuration, check_key};

use super::default_server::{self, WeakServer};
use super::{LockRequest, ReleasedBy};
use crate::locks::LockError;
use crate::store::ClaimPurpose;
use crate::util::duration::IntoDuration;

const DEFAULT_TTL: Duration = Duration::from_secs(30);

/// Options as the caller wrote them. They are checked when the lock is requested, so that the setters return no errors.
#[derive(Clone, Debug)]
pub(crate) struct LockOptions {
    /// `None` for the [default](default_server) one.
    server: Option<WeakServer>,
    pub(crate) key: String,
    ttl: Result<Duration, String>,
    /// `None` waits without a limit.
    wait: Option<Result<Duration, String>>,
    pub(crate) keep_alive: bool,
}

impl LockOptions {
    pub(crate) fn new(server: Option<WeakServer>, key: String) -> Self {
        Self { server, key, ttl: Ok(DEFAULT_TTL), wait: None, keep_alive: true }
    }

    pub(crate) fn ttl(&mut self, ttl: impl IntoDuration) {
        self.ttl = ttl.into_duration();
    }

    pub(crate) fn wait(&mut self, wait: impl IntoDuration) {
        self.wait = Some(wait.into_duration());
    }

    /// Checks the options, and finds the server.
    pub(crate) fn request(
        &self,
        what: ClaimPurpose,
        released_by: ReleasedBy,
    ) -> Result<LockRequest, LockError> {
        check_key(&self.key).map_err(|problem| invalid(format!("invalid key {:?}: {problem}", self.key)))?;
        let ttl = check_duration(LockDuration::Ttl, self.ttl.clone())?;
        let wait = self.wait.clone().map(|wait| parsed(LockDuration::Wait, wait)).transpose()?;
        let server = match &self.server {
            Some(server) => server.get().ok_or_else(|| LockError::shut_down(&self.key))?,
            None => default_server::find(&self.key)?,
        };
        let (key, keep_alive) = (self.key.clone(), self.keep_alive);
        Ok(LockRequest { server, key, ttl, wait, keep_alive, what, released_by })
    }
}

/// Checks that a duration could be read, and is within its limits.
pub(crate) fn check_duration(
    option: LockDuration,
    given: Result<Duration, String>,
) -> Result<Duration, LockError> {
    let duration = parsed(option, given)?;
    option.check(duration).map_err(invalid)?;
    Ok(duration)
}

fn parsed(option: LockDuration, given: Result<Duration, String>) -> Result<Duration, LockError> {
    given.map_err(|problem| invalid(format!("invalid `{}` {problem}", option.name())))
}

pub(crate) fn invalid(problem: String) -> LockError {
    LockError::Invalid { problem }
}
