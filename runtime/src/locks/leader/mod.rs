//! The election of a leader.

use super::LockError;
use super::acquire::Ask;
use super::acquire::at_hand::Instance;
use super::acquire::options::Options;
use super::locked::body::under_lock;
use crate::store::ClaimPurpose;
use crate::util::duration::IntoDuration;
use campaign::Campaign;
use term::Term;

pub(crate) mod campaign;
pub(crate) mod term;

/// One leader among all servers, for work that goes on for as long as the process does.
///
/// [`lead`](Leader::lead) is the short form; [`campaign`](Leader::campaign) is for code that only wants to know. A leader
/// that resigns or is shut down hands over as soon as the others notice, as with a [`Lock`](crate::locks::Lock#waiting). If it
/// dies, another one is elected a ttl after its last keep-alive, and up to 0.2 s. Two terms never overlap, as far as the
/// [promise](crate#what-is-promised-and-what-is-not) goes: a leader that can no longer prove its lease steps down before
/// the store lets anybody else step up.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let jobs = jobs::builder().without_jobs().url("memory://leader").start_all().await?;
/// let cached = jobs.leader("cache-warmer").ttl("10s").lead(|term| async move {
///     // Only on one server at a time. Dropped when the term is lost, and called again when elected again.
///     term.fence()
/// });
/// assert!(cached.await? > 0);
/// # jobs.shutdown().await;
/// # Ok(()) }
/// ```
#[must_use = "nobody is elected before `campaign` or `lead`"]
#[derive(Clone, Debug)]
pub struct Leader {
    options: Options,
}

impl Leader {
    pub(super) fn new(instance: Option<Instance>, key: impl Into<String>) -> Self {
        Self { options: Options::new(instance, key.into()) }
    }

    /// How long a term lasts if its leader dies, 30 s unless set and at least 1 s.
    pub fn ttl(mut self, ttl: impl IntoDuration) -> Self {
        self.options.ttl(ttl);
        self
    }

    /// Begins to campaign, in the background and on the scheduler's own thread, until the returned handle is dropped.
    pub fn campaign(self) -> Result<Campaign, LockError> {
        let options = self.options.check()?;
        Ok(Campaign::begin(Ask { options, what: ClaimPurpose::Leader, scoped: false }))
    }

    /// Campaigns, and does the work while this process leads; on this task.
    ///
    /// The work is dropped at the `await` it is at when the term can no longer be proved, and at once when the server
    /// begins to shut down. After a lost term it campaigns again, and calls the work anew with the next one. When the
    /// work ends by itself, it resigns and returns what the work returned. The end of the scheduler is
    /// [`LockError::Ended`].
    pub async fn lead<T, Fut>(self, mut work: impl FnMut(Term) -> Fut) -> Result<T, LockError>
    where
        Fut: Future<Output = T>,
    {
        let campaign = self.campaign()?;
        loop {
            let term = campaign.elected().await?;
            let office = term.clone();
            let future = async { work(term).await };
            match under_lock(office.guard(), future).await {
                Ok(value) => {
                    drop(office);
                    // The work is done. A release that fails is logged, and the term expires.
                    drop(campaign.resign().await);
                    return Ok(value);
                }
                Err(LockError::Lost { .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }
}
