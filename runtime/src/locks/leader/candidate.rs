//! A candidate in an election.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::time::sleep;

use super::leadership::Leadership;
use crate::fleet::Holder;
use crate::history::RunOutcome;
use crate::lease::HeldLease;
use crate::locks::LockError;
use crate::locks::acquire::poll_interval::PollInterval;
use crate::locks::acquire::{AcquireError, AcquireOutcome, LockRequest};
use crate::locks::keeper::{CommandReply, LockKeeper};
use crate::server::{FailOnPanic, Server};

/// The leader of a group, as far as a candidate knows.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum LeaderStatus {
    /// The leader is not known: the store has not replied yet, or this process just lost its leadership.
    Unknown,
    /// This process leads.
    Leading(Leadership),
    /// Another process leads, as of the last reply of the store.
    Following(Holder),
    /// The candidate has resigned, was dropped, or its server shuts down.
    Ended,
}

/// A candidate for leadership: it tries to become the leader in the background until it [resigns](Candidate::resign) or is
/// dropped, or the server begins to shut down.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let jobs = jobs::builder().without_jobs().url("memory://campaign").start_all().await?;
/// let candidate = jobs.leader("cron-scheduler").ttl("10s").campaign()?;
/// let leadership = candidate.elected().await?;
/// assert!(candidate.is_leader() && leadership.fence() > 0);
/// candidate.resign().await?;
/// assert!(leadership.is_lost());
/// # jobs.shutdown().await;
/// # Ok(()) }
/// ```
#[must_use = "dropping this candidate ends its leadership"]
#[derive(Debug)]
pub struct Candidate {
    key: String,
    status: watch::Receiver<LeaderStatus>,
    /// Dropping it ends the campaign.
    resign: oneshot::Sender<CommandReply>,
}

impl Candidate {
    pub(crate) fn start(request: LockRequest) -> Self {
        let (sender, status) = watch::channel(LeaderStatus::Unknown);
        let (resign, resigned) = oneshot::channel();
        let (server, key) = (request.server.clone(), request.key.clone());
        drop(server.host.clone().spawn(async move {
            let end = CampaignEnd { server: server.clone(), resigned, reached: None };
            let _fail_on_panic = FailOnPanic(server);
            Campaign { request, status: StatusSender(sender), end }.run().await;
        }));
        Self { key, status, resign }
    }

    /// Waits until this process leads.
    pub async fn elected(&self) -> Result<Leadership, LockError> {
        let mut status = self.status.clone();
        loop {
            match &*status.borrow_and_update() {
                LeaderStatus::Leading(leadership) if !leadership.is_over() => return Ok(leadership.clone()),
                LeaderStatus::Ended => return Err(LockError::shut_down(&self.key)),
                _ => {}
            }
            if status.changed().await.is_err() {
                return Err(LockError::shut_down(&self.key));
            }
        }
    }

    /// Reports the current leader, and every change.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let jobs = jobs::builder().without_jobs().url("memory://watch").start_all().await?;
    /// use jobs::locks::LeaderStatus;
    ///
    /// let candidate = jobs.leader("cron-scheduler").campaign()?;
    /// let mut status = candidate.watch();
    /// loop {
    ///     match &*status.borrow_and_update() {
    ///         LeaderStatus::Leading(leadership) => println!("leading with fence {}", leadership.fence()),
    ///         LeaderStatus::Following(leader) => println!("following {:?}", leader.server),
    ///         LeaderStatus::Ended => break,
    ///         _ => println!("unknown"),
    ///     }
    ///     # if candidate.is_leader() { break }
    ///     status.changed().await?;
    /// }
    /// # jobs.shutdown().await;
    /// # Ok(()) }
    /// ```
    pub fn watch(&self) -> watch::Receiver<LeaderStatus> {
        self.status.clone()
    }

    /// Whether this process leads, and can prove it. Needs no round trip to the store.
    pub fn is_leader(&self) -> bool {
        matches!(&*self.status.borrow(), LeaderStatus::Leading(leadership) if !leadership.is_lost())
    }

    /// Waits until the current leadership is lost. Returns at once if this process does not lead.
    pub async fn lost(&self) {
        let leadership = match &*self.status.borrow() {
            LeaderStatus::Leading(leadership) => leadership.clone(),
            _ => return,
        };
        leadership.lost().await;
    }

    /// Ends the candidacy. If this process leads, another one can lead at once.
    pub async fn resign(self) -> Result<(), LockError> {
        let (reply, result) = oneshot::channel();
        drop(self.resign.send(reply)); // if the campaign has ended, there is no reply
        result.await.unwrap_or_else(|_| Err(LockError::ShutDown { key: self.key }))
    }
}

/// Sends the status of a campaign; when it is dropped, that the campaign has ended.
struct StatusSender(watch::Sender<LeaderStatus>);

impl StatusSender {
    fn send(&self, status: LeaderStatus) {
        self.0.send_replace(status);
    }

    /// Notifies only of another leader: the remaining time of its lease changes with every reply.
    fn send_leader(&self, leader: &Holder) {
        self.0.send_if_modified(|status| {
            let is_known = matches!(status, LeaderStatus::Following(known)
                if known.server == leader.server && known.since == leader.since);
            *status = LeaderStatus::Following(leader.clone());
            !is_known
        });
    }
}

impl Drop for StatusSender {
    fn drop(&mut self) {
        self.send(LeaderStatus::Ended);
    }
}

/// The end of a campaign. Once it is reached it stays so, because several places wait for it.
struct CampaignEnd {
    server: Arc<Server>,
    resigned: oneshot::Receiver<CommandReply>,
    reached: Option<EndReason>,
}

enum EndReason {
    /// The candidate resigned, and waits for the reply.
    Resigned(CommandReply),
    /// The candidate was dropped, or the server shuts down.
    Dropped,
}

impl CampaignEnd {
    async fn wait(&mut self) {
        if self.reached.is_none() {
            self.reached = Some(tokio::select! {
                biased;
                () = self.server.shutting_down.raised() => EndReason::Dropped,
                reply = &mut self.resigned => reply.map_or(EndReason::Dropped, EndReason::Resigned),
            });
        }
    }

    fn is_reached(&self) -> bool {
        self.reached.is_some() || self.server.shutting_down.is_raised()
    }

    /// Replies to the candidate, if it resigned.
    fn reply(self, result: Result<(), LockError>) {
        if let Some(EndReason::Resigned(reply)) = self.reached {
            drop(reply.send(result)); // the caller may be gone
        }
    }
}

/// The pause after an error that a retry does not fix.
const AFTER_ERROR: Duration = Duration::from_secs(5);

/// The background task of a candidate.
struct Campaign {
    request: LockRequest,
    status: StatusSender,
    end: CampaignEnd,
}

impl Campaign {
    async fn run(mut self) {
        loop {
            let Self { request, status, end } = &mut self;
            let acquired = request.acquire_lease(end.wait(), |leader| status.send_leader(leader)).await;
            let leadership = match acquired {
                Ok(AcquireOutcome::Lock(lease)) => self.start_leadership(lease),
                Err(AcquireError::CallerGone | AcquireError::Lock(LockError::ShutDown { .. })) => break,
                Err(AcquireError::Lock(error)) => {
                    let key = &request.key;
                    tracing::warn!(
                        target: "jobs", key, %error,
                        "[{key}] failed to take part in the leader election: {error}; retrying in {AFTER_ERROR:?}"
                    );
                    status.send(LeaderStatus::Unknown);
                    tokio::select! {
                        biased;
                        () = end.wait() => break,
                        () = sleep(AFTER_ERROR) => continue,
                    }
                }
                // A candidate waits without a limit, so these are not final.
                Ok(AcquireOutcome::AlreadyDone(_) | AcquireOutcome::Held { .. }) => continue,
            };
            if self.end.is_reached() {
                let result = leadership.guard().end(RunOutcome::NotStarted).await;
                return self.end.reply(result);
            }
            self.status.send(LeaderStatus::Leading(leadership.clone()));
            tokio::select! {
                biased;
                () = self.end.wait() => return self.end_leadership(&leadership).await,
                () = leadership.lost() => self.status.send(LeaderStatus::Unknown),
            }
            if leadership.has_resigned() {
                tokio::select! {
                    biased;
                    () = self.end.wait() => break,
                    () = sleep(PollInterval::default().with_notifications()) => {}
                }
            }
        }
        self.end.reply(Ok(()));
    }

    fn start_leadership(&self, lease: HeldLease) -> Leadership {
        let server = &self.request.server;
        let (guard, keeper) = LockKeeper::new(&self.request, lease);
        let fail_on_panic = FailOnPanic(Arc::clone(server));
        drop(server.host.spawn(async move {
            let _fail_on_panic = fail_on_panic;
            keeper.run().await;
        }));
        Leadership::new(guard)
    }

    async fn end_leadership(self, leadership: &Leadership) {
        match self.end.reached {
            Some(EndReason::Resigned(_)) => {
                let result = leadership.guard().end(RunOutcome::Succeeded).await;
                self.end.reply(result);
            }
            // The key is released when the work has dropped its clones of the leadership.
            _ => leadership.guard().step_down(),
        }
    }
}
