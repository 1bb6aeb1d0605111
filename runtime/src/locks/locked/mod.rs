//! Calls of functions that are annotated with `#[locked]`.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use super::LockError;
use super::acquire::ReleasedBy;
use super::acquire::default_server::WeakServer;
use super::acquire::options::LockOptions;
use super::error::write_held;
use super::once::{Once, OnceError, OnceOutcome};
use super::run_locked::acquire_and_run;
use crate::Timestamp;
use crate::fleet::Holder;
use crate::store::ClaimPurpose;
use key::KeyBuilder;

pub(crate) mod key;

/// The reason why a [locked](macro@crate::locked) function did not run, or did not run to its end.
///
/// ```
/// use jobs::{locked, locks::NotRun};
///
/// #[locked(key = "payment:{order_id}", within = "24h")]
/// async fn charge(order_id: u64) -> Result<String, std::io::Error> {
///     Ok(format!("receipt {order_id}"))
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let jobs = jobs::builder().without_jobs().url("memory://not-run").start_all().await?;
/// let receipt = charge(7).await??; // the error of the lock, then the error of the function
/// assert_eq!(receipt, "receipt 7");
///
/// match charge(7).await {
///     Ok(receipt) => println!("{}", receipt?),
///     Err(NotRun::Held { holder, .. }) => println!("{:?} is charging", holder.server),
///     Err(NotRun::AlreadyDone { at, .. }) => println!("charged at {at}"),
///     Err(error) => return Err(error.into()),
/// }
/// # jobs.shutdown().await;
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum NotRun {
    /// Another caller held the lock until the wait was over. The function did not run.
    Held {
        /// The lock's key.
        key: String,
        /// The holder, as of the last reply of the store.
        holder: Holder,
    },
    /// With `within`: an earlier call succeeded. The function did not run again.
    AlreadyDone {
        /// The lock's key.
        key: String,
        /// When the earlier call ended, by the store's clock.
        at: Timestamp,
    },
    /// The lock could not be acquired, and the function did not run. Or the lock was [lost](LockError::Lost), or the
    /// server [shut down](LockError::ShutDown), while the function ran: then it was dropped at one of its `await`s.
    Lock(LockError),
}

impl From<LockError> for NotRun {
    fn from(error: LockError) -> Self {
        match error {
            LockError::Held { key, holder, .. } => Self::Held { key, holder },
            error => Self::Lock(error),
        }
    }
}

impl fmt::Display for NotRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held { key, holder } => {
                f.write_str("not run: ")?;
                write_held(f, key, holder)?;
                f.write_str("; retry later, or set a longer `wait`")
            }
            Self::AlreadyDone { key, at } => {
                write!(f, "not run: \"{key}\" was done at {at} and is not done again during `within`")
            }
            Self::Lock(error) => error.fmt(f),
        }
    }
}

impl Error for NotRun {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            // Its message is the one above.
            Self::Lock(error) => error.source(),
            Self::Held { .. } | Self::AlreadyDone { .. } => None,
        }
    }
}

/// Not public API. The return types of functions that are locked `within` a period: `()`, or a `Result`, whose error
/// means that the work is not done.
#[diagnostic::on_unimplemented(
    message = "a function that is locked with `within` cannot return `{Self}`",
    label = "does not say whether it is done",
    note = "with `within` it returns `()` or `Result<T, E>`: after an error it is not done, and the next call runs it"
)]
pub trait Completion {
    /// Whether the work is done.
    fn is_complete(&self) -> bool;
}

impl Completion for () {
    fn is_complete(&self) -> bool {
        true
    }
}

impl<T, E> Completion for Result<T, E> {
    fn is_complete(&self) -> bool {
        self.is_ok()
    }
}

/// Not public API. The arguments of the attribute; durations in milliseconds.
#[derive(Debug)]
#[allow(missing_docs, reason = "each field is the argument of its name")]
pub struct LockedArguments {
    pub key: KeyBuilder,
    pub ttl: u64,
    /// `None` waits without a limit.
    pub wait: Option<u64>,
    pub keep_alive: bool,
}

impl LockedArguments {
    fn options(self) -> Result<LockOptions, LockError> {
        let mut options = LockOptions::new(None::<WeakServer>, self.key.finish()?);
        options.ttl(Duration::from_millis(self.ttl));
        if let Some(wait) = self.wait {
            options.wait(Duration::from_millis(wait));
        }
        options.keep_alive = self.keep_alive;
        Ok(options)
    }
}

/// Not public API. Polls the body of a locked function under its lock.
///
/// The body is boxed: otherwise each of the futures around it would contain it, at twice the size each time.
pub fn call<T>(
    arguments: LockedArguments,
    body: impl Future<Output = T>,
) -> impl Future<Output = Result<T, NotRun>> {
    let body = Box::pin(body);
    async move {
        let request = arguments.options()?.request(ClaimPurpose::Lock, ReleasedBy::Crate)?;
        Ok(acquire_and_run(request, |_| body).await?)
    }
}

/// Not public API. As [`call`], for a function that succeeds once within this number of milliseconds.
pub fn call_once<T>(
    arguments: LockedArguments,
    within: u64,
    is_complete: fn(&T) -> bool,
    body: impl Future<Output = T>,
) -> impl Future<Output = Result<T, NotRun>> {
    let body = Box::pin(body);
    async move {
        let options = arguments.options()?;
        let key = options.key.clone();
        let work = Once::with_options(options, Duration::from_millis(within)).run(async |_| {
            let value = body.await;
            if is_complete(&value) { Ok(value) } else { Err(value) }
        });
        match work.await {
            Ok(OnceOutcome::Ran(value)) | Err(OnceError::Failed(value)) => Ok(value),
            Ok(OnceOutcome::AlreadyDone(at)) => Err(NotRun::AlreadyDone { key, at }),
            Ok(OnceOutcome::InProgress(holder)) => Err(NotRun::Held { key, holder }),
            Err(OnceError::Lock(error)) => Err(error.into()),
        }
    }
}
