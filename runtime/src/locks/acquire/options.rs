//! What can be said about a lock before it is asked for, and the check of it.

use std::sync::Arc;
use std::time::Duration;

use singleton_jobs_policy::check_key;

use super::at_hand;
use super::at_hand::Instance;
use crate::locks::LockError;
use crate::server::Server;
use crate::util::duration::IntoDuration;

/// As long as a job's, and no longer.
const SHORTEST_TTL: Duration = Duration::from_secs(1);
const LONGEST_TTL: Duration = Duration::from_secs(7 * 24 * 3600);

const TTL: Duration = Duration::from_secs(30);

/// Mistakes are kept until the lock is asked for, so that builders stay builders.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// `None` for the scheduler at hand.
    instance: Option<Instance>,
    pub(crate) key: String,
    ttl: Result<Duration, String>,
    wait: Option<Result<Duration, String>>,
    pub(crate) keep_alive: bool,
}

/// Options that can be used.
#[derive(Clone)]
pub(crate) struct Checked {
    pub(crate) server: Arc<Server>,
    pub(crate) key: String,
    pub(crate) ttl: Duration,
    /// `None` for ever.
    pub(crate) wait: Option<Duration>,
    pub(crate) keep_alive: bool,
}

impl Options {
    pub(crate) fn new(instance: Option<Instance>, key: String) -> Self {
        Self { instance, key, ttl: Ok(TTL), wait: None, keep_alive: true }
    }

    pub(crate) fn ttl(&mut self, ttl: impl IntoDuration) {
        self.ttl = ttl.into_duration();
    }

    pub(crate) fn wait(&mut self, wait: impl IntoDuration) {
        self.wait = Some(wait.into_duration());
    }

    pub(crate) fn check(&self) -> Result<Checked, LockError> {
        check_key(&self.key).map_err(|problem| invalid(format!("invalid key {:?}: {problem}", self.key)))?;
        let ttl = check_ttl(self.ttl.clone())?;
        let wait = self.wait.clone().map(|wait| named("wait", wait)).transpose()?;
        let server = match &self.instance {
            Some(instance) => instance.get().ok_or_else(|| LockError::ended(&self.key))?,
            None => at_hand::find(&self.key)?,
        };
        Ok(Checked { server, key: self.key.clone(), ttl, wait, keep_alive: self.keep_alive })
    }
}

pub(crate) fn check_ttl(given: Result<Duration, String>) -> Result<Duration, LockError> {
    let ttl = named("ttl", given)?;
    if ttl < SHORTEST_TTL {
        return Err(invalid(format!("`ttl` {ttl:?} is too short; at least \"1s\"")));
    }
    if ttl > LONGEST_TTL {
        return Err(invalid(format!("`ttl` {ttl:?} is too long; at most \"7days\"")));
    }
    Ok(ttl)
}

pub(crate) fn named(option: &str, given: Result<Duration, String>) -> Result<Duration, LockError> {
    given.map_err(|problem| invalid(format!("invalid `{option}` {problem}")))
}

pub(crate) fn invalid(problem: String) -> LockError {
    LockError::Invalid { problem }
}
