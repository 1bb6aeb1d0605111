//! Leader election.

use super::LockError;
use super::acquire::ReleasedBy;
use super::acquire::default_server::WeakServer;
use super::acquire::options::LockOptions;
use super::run_locked::run_while_held;
use crate::store::ClaimPurpose;
use crate::util::duration::IntoDuration;
use candidate::Candidate;
use leadership::Leadership;

pub(crate) mod candidate;
pub(crate) mod leadership;

/// The election of one leader among all servers, for work that lasts as long as the process.
///
/// [`lead`](Leader::lead) runs code while this process leads; [`campaign`](Leader::campaign) reports who leads. When a
/// leader resigns or shuts down, another one leads as soon as it notices, as with a [`Lock`](crate::locks::Lock#waiting). When
/// a leader dies, another one is elected a ttl after the last keep-alive, plus up to 0.2 s. Two leaders never overlap, as far
/// as the [promise](crate#what-is-promised-and-what-is-not) goes: a leader that can no longer prove its lease loses its
/// leadership before the store lets another one lead.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let jobs = jobs::builder().without_jobs().url("memory://leader").start_all().await?;
/// let cached = jobs.leader("cache-warmer").ttl("10s").lead(|leadership| async move {
///     // Runs on one server at a time. Dropped when the leadership is lost, and called again after the next election.
///     leadership.fence()
/// });
/// assert!(cached.await? > 0);
/// # jobs.shutdown().await;
/// # Ok(()) }
/// ```
#[must_use = "no leader is elected before `campaign` or `lead`"]
#[derive(Clone, Debug)]
pub struct Leader {
    options: LockOptions,
}

impl Leader {
    pub(super) fn new(server: Option<WeakServer>, key: impl Into<String>) -> Self {
        Self { options: LockOptions::new(server, key.into()) }
    }

    /// How long a leadership lasts if the leader dies: `"10s"` or a [`Duration`](std::time::Duration), from 1 s to 7 days.
    /// 30 s by default.
    pub fn ttl(mut self, ttl: impl IntoDuration) -> Self {
        self.options.ttl(ttl);
        self
    }

    /// Makes this process a candidate, in the background and on the server's own thread, until the candidate is dropped.
    pub fn campaign(self) -> Result<Candidate, LockError> {
        Ok(Candidate::start(self.options.request(ClaimPurpose::Leader, ReleasedBy::Caller)?))
    }

    /// Makes this process a candidate, and runs the work on this task while this process leads.
    ///
    /// The work is dropped at the `await` that it is at when the leadership is lost, and when the server begins to shut
    /// down. After a loss this process is a candidate again, and the work is called again after the next election. When
    /// the work returns, the leader resigns, and this returns the value. If the server shuts down, this returns
    /// [`LockError::ShutDown`].
    pub async fn lead<T, Fut>(self, mut work: impl FnMut(Leadership) -> Fut) -> Result<T, LockError>
    where
        Fut: Future<Output = T>,
    {
        let candidate = self.campaign()?;
        loop {
            let leadership = candidate.elected().await?;
            let held = leadership.clone();
            let future = async { work(leadership).await };
            match run_while_held(held.guard(), future).await {
                Ok(value) => {
                    drop(held);
                    // The work has ended. A release that fails is logged, and the lease expires.
                    drop(candidate.resign().await);
                    return Ok(value);
                }
                Err(LockError::Lost { .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }
}
