//! Work that is done once within a while.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use singleton_jobs_policy::{LONGEST_WITHIN, SHORTEST_WITHIN};

use super::LockError;
use super::acquire::at_hand::Instance;
use super::acquire::options::{Options, invalid, named};
use super::acquire::{Ask, Decision};
use super::locked::body::under_lock;
use crate::fleet::Holder;
use crate::history::RunOutcome;
use crate::store::{ClaimPurpose, Ending};
use crate::util::duration::IntoDuration;
use crate::{Run, Timestamp};

const WITHIN: Duration = Duration::from_secs(24 * 3600);

/// Work that is done once, whoever is asked to do it, and however often: the handling of a webhook that is delivered
/// twice, say.
///
/// The code runs under a lock. Only if it succeeds, the key is marked as done, in the same step that releases the lock;
/// then nobody runs it again [within](RunOnce::within) the time. If it fails, panics, is dropped, or its server dies,
/// the next attempt is free to run.
///
/// This is not "exactly once": a server that dies after the work and before the mark leaves it to be done again, so
/// make writes repeatable. The same holds if the store does not answer to the release, which is tried for a ttl: then
/// this returns [`Once::Ran`], the log has an error, and whether the mark was set is not known.
///
/// ```
/// use jobs::locks::Once;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let jobs = jobs::builder().without_jobs().url("memory://once").start_all().await?;
/// for delivery in 1..=2 {
///     let handled = jobs.once("webhook:42").within("24h").run(|_| async {
///         Ok::<_, std::io::Error>("paid")
///     });
///     match handled.await? {
///         Once::Ran(result) => assert_eq!((delivery, result), (1, "paid")),
///         Once::AlreadyDone(when) => println!("done at {when}"),
///         other => println!("{other:?}"),
///     }
/// }
/// # jobs.shutdown().await;
/// # Ok(()) }
/// ```
#[must_use = "nothing is done before `run`"]
#[derive(Clone, Debug)]
pub struct RunOnce {
    options: Options,
    within: Result<Duration, String>,
}

/// What became of work that is done once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Once<T> {
    /// It was done here and now, and this is what it returned.
    Ran(T),
    /// It was done before, at this instant of the store's clock.
    AlreadyDone(Timestamp),
    /// Somebody is doing it.
    InProgress(Holder),
}

/// Why work that is done once was not done.
#[derive(Debug)]
#[non_exhaustive]
pub enum OnceError<E> {
    /// The code returned this error. The next attempt is free to run.
    Failed(E),
    /// It could not begin, or not end, under its lock.
    Lock(LockError),
}

impl RunOnce {
    pub(super) fn new(instance: Option<Instance>, key: impl Into<String>) -> Self {
        let mut options = Options::new(instance, key.into());
        options.wait(Duration::ZERO);
        Self { options, within: Ok(WITHIN) }
    }

    pub(super) fn with(options: Options, within: Duration) -> Self {
        Self { options, within: Ok(within) }
    }

    /// For how long the work counts as done, 24 h unless set, and at least 1 s.
    pub fn within(mut self, within: impl IntoDuration) -> Self {
        self.within = within.into_duration();
        self
    }

    /// How long its lock lasts if the server that does it dies, 30 s unless set and at least 1 s.
    pub fn ttl(mut self, ttl: impl IntoDuration) -> Self {
        self.options.ttl(ttl);
        self
    }

    /// How long to wait for somebody who is doing it: then it is [done](Once::AlreadyDone), or this one's turn. Not at
    /// all unless set.
    pub fn wait(mut self, wait: impl IntoDuration) -> Self {
        self.options.wait(wait);
        self
    }

    /// Whether the lock is extended while the work is done; see [`Lock::keep_alive`](crate::locks::Lock::keep_alive).
    pub fn keep_alive(mut self, keep_alive: bool) -> Self {
        self.options.keep_alive = keep_alive;
        self
    }

    /// Runs the code if the work was not done yet and nobody is doing it.
    ///
    /// It is polled only while its lease is proved, as in [`Lock::run`](crate::locks::Lock::run).
    pub async fn run<T, E, Fut>(self, code: impl FnOnce(Run) -> Fut) -> Result<Once<T>, OnceError<E>>
    where
        Fut: Future<Output = Result<T, E>>,
    {
        let done_for = self.done_for()?;
        let ask = Ask { options: self.options.check()?, what: ClaimPurpose::Once, scoped: true };
        let guard = match ask.acquire().await? {
            Decision::Won(guard) => guard,
            Decision::Done(at) => return Ok(Once::AlreadyDone(at)),
            Decision::Held { holder, .. } => return Ok(Once::InProgress(holder)),
        };
        let run = guard.run().clone();
        match under_lock(&guard, async move { code(run).await }).await? {
            Ok(value) => {
                let ending = Ending { done_for: Some(done_for), ..guard.ending(RunOutcome::Succeeded) };
                if let Err(error) = guard.end(ending).await {
                    let key = guard.key();
                    tracing::error!(
                        target: "jobs", key, %error,
                        "[{key}] the work was done, but may not be marked as done, so it may be done again"
                    );
                }
                Ok(Once::Ran(value))
            }
            Err(error) => {
                drop(guard.end(guard.ending(RunOutcome::Failed)).await); // logged; it expires by itself
                Err(OnceError::Failed(error))
            }
        }
    }

    fn done_for(&self) -> Result<Duration, LockError> {
        let within = named("within", self.within.clone())?;
        if within < SHORTEST_WITHIN {
            return Err(invalid(format!("`within` {within:?} is too short; at least \"1s\"")));
        }
        if within > LONGEST_WITHIN {
            return Err(invalid(format!("`within` {within:?} is too long; at most \"3650days\"")));
        }
        Ok(within)
    }
}

impl<E> From<LockError> for OnceError<E> {
    fn from(error: LockError) -> Self {
        Self::Lock(error)
    }
}

impl<E: fmt::Display> fmt::Display for OnceError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(error) => error.fmt(f),
            Self::Lock(error) => error.fmt(f),
        }
    }
}

/// No sources: each message is complete, and reporters that follow sources would say it twice.
impl<E: fmt::Debug + fmt::Display> Error for OnceError<E> {}
