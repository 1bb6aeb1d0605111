//! What calling a locked function comes to.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use super::LockError;
use super::acquire::Ask;
use super::acquire::at_hand::Instance;
use super::acquire::options::Options;
use super::key::Key;
use super::once::{Once, OnceError, RunOnce};
use crate::Timestamp;
use crate::fleet::Holder;
use crate::store::ClaimPurpose;

pub(crate) mod body;

/// What became of the call of a [locked](macro@crate::locked) function. It may not have run.
///
/// ```
/// use jobs::{locked, locks::Locked};
///
/// #[locked(key = "payment:{order_id}", within = "24h")]
/// async fn charge(order_id: u64) -> Result<String, std::io::Error> {
///     Ok(format!("receipt {order_id}"))
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let jobs = jobs::builder().without_jobs().url("memory://locked-type").start_all().await?;
/// match charge(7).await {
///     Locked::Ran(receipt) => println!("{}", receipt?),
///     Locked::Held { holder, .. } => println!("{:?} is at it", holder.server),
///     Locked::AlreadyDone { at, .. } => println!("charged at {at}"),
///     Locked::Failed(error) => return Err(error.into()),
///     other => println!("{other:?}"),
/// }
///
/// // Or where it must have run:
/// let receipt = charge(8).await.into_result()??;
/// assert_eq!(receipt, "receipt 8");
/// # jobs.shutdown().await;
/// # Ok(()) }
/// ```
#[must_use = "the function may not have run; look at it, or ask for `into_result()`"]
#[derive(Debug)]
#[non_exhaustive]
pub enum Locked<T> {
    /// It ran to its end under the lock, and this is what it returned.
    Ran(T),
    /// Somebody held the lock until the wait was over. It was not run.
    Held {
        /// The lock's key.
        key: String,
        /// Who held it, when the store was last asked.
        holder: Holder,
    },
    /// With `within`: it was run with success before. It was not run again.
    AlreadyDone {
        /// The lock's key.
        key: String,
        /// When that was, by the store's clock.
        at: Timestamp,
    },
    /// There was no lock to run it under, so it was not run; or it was [lost](LockError::Lost), or the scheduler
    /// [ended](LockError::Ended), while it ran: then it was dropped at one of its `await`s.
    Failed(LockError),
}

/// Why a [locked](macro@crate::locked) function did not run, or not to its end.
#[derive(Debug)]
#[non_exhaustive]
pub enum NotRun {
    /// As [`Locked::Held`].
    Held {
        /// The lock's key.
        key: String,
        /// Who held it, when the store was last asked.
        holder: Holder,
    },
    /// As [`Locked::AlreadyDone`].
    AlreadyDone {
        /// The lock's key.
        key: String,
        /// When that was, by the store's clock.
        at: Timestamp,
    },
    /// As [`Locked::Failed`].
    Failed(LockError),
}

impl<T> Locked<T> {
    /// What the function returned, if it ran.
    pub fn ran(self) -> Option<T> {
        self.into_result().ok()
    }

    /// Whether it ran to its end.
    pub fn is_ran(&self) -> bool {
        matches!(self, Self::Ran(_))
    }

    /// What the function returned, or why it did not: `charge(7).await.into_result()??` if that is a result itself.
    pub fn into_result(self) -> Result<T, NotRun> {
        match self {
            Self::Ran(value) => Ok(value),
            Self::Held { key, holder } => Err(NotRun::Held { key, holder }),
            Self::AlreadyDone { key, at } => Err(NotRun::AlreadyDone { key, at }),
            Self::Failed(error) => Err(NotRun::Failed(error)),
        }
    }
}

impl fmt::Display for NotRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held { key, holder } => {
                let server = holder.server.as_deref().unwrap_or("another program");
                write!(f, "not run, because the lock \"{key}\" is held by {server}")?;
                if let Some(left) = holder.remaining {
                    write!(f, " for {:.1} s unless extended", left.as_secs_f32())?;
                }
                f.write_str("; try again later, or wait longer with `wait`")
            }
            Self::AlreadyDone { key, at } => {
                write!(f, "not run again, because \"{key}\" was done at {at}; it counts as done for `within`")
            }
            Self::Failed(error) => error.fmt(f),
        }
    }
}

/// No sources: each message is complete, and reporters that follow sources would say it twice.
impl Error for NotRun {}

/// What a function that is locked `within` a time can return: `()`, or a `Result`, whose error leaves it to be done.
#[diagnostic::on_unimplemented(
    message = "a function that is locked with `within` cannot return `{Self}`",
    label = "does not say whether it is done",
    note = "with `within` it returns `()` or `Result<T, E>`: after an error it is not done, and the next call runs it"
)]
pub trait Completion {
    #[doc(hidden)]
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

/// Not public API. What the attribute's arguments say, in milliseconds.
#[derive(Debug)]
#[allow(missing_docs, reason = "each field is the argument of its name")]
pub struct Locking {
    pub key: Key,
    pub ttl: u64,
    /// `None` for ever.
    pub wait: Option<u64>,
    pub keep_alive: bool,
}

impl Locking {
    fn options(self) -> Result<Options, LockError> {
        let mut options = Options::new(None::<Instance>, self.key.finish()?);
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
/// The body is boxed: it would be in each of the futures around it, at twice the size each time.
pub fn call<T>(locking: Locking, body: impl Future<Output = T>) -> impl Future<Output = Locked<T>> {
    let body = Box::pin(body);
    async move {
        let ask =
            |options: Options| Ok(Ask { options: options.check()?, what: ClaimPurpose::Lock, scoped: true });
        let ran = match locking.options().and_then(ask) {
            Ok(ask) => body::run(ask, |_| body).await,
            Err(error) => Err(error),
        };
        ran.map_or_else(not_run, Locked::Ran)
    }
}

/// Not public API. The same for a function that is run with success once within so many milliseconds.
pub fn call_once<T>(
    locking: Locking,
    within: u64,
    is_complete: fn(&T) -> bool,
    body: impl Future<Output = T>,
) -> impl Future<Output = Locked<T>> {
    let body = Box::pin(body);
    async move {
        let options = match locking.options() {
            Ok(options) => options,
            Err(error) => return Locked::Failed(error),
        };
        let key = options.key.clone();
        let work = RunOnce::with(options, Duration::from_millis(within)).run(async |_| {
            let value = body.await;
            if is_complete(&value) { Ok(value) } else { Err(value) }
        });
        match work.await {
            Ok(Once::Ran(value)) | Err(OnceError::Failed(value)) => Locked::Ran(value),
            Ok(Once::AlreadyDone(at)) => Locked::AlreadyDone { key, at },
            Ok(Once::InProgress(holder)) => Locked::Held { key, holder },
            Err(OnceError::Lock(error)) => not_run(error),
        }
    }
}

fn not_run<T>(error: LockError) -> Locked<T> {
    match error {
        LockError::Held { key, holder, .. } => Locked::Held { key, holder },
        error => Locked::Failed(error),
    }
}
