//! A campaign to lead.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::time::sleep;

use super::term::Term;
use crate::fleet::Holder;
use crate::history::RunOutcome;
use crate::locks::LockError;
use crate::locks::acquire::pause::Pause;
use crate::locks::acquire::{Ask, Decision, Stop};
use crate::locks::hold::{Holding, Reply};
use crate::server::FailOnPanic;

/// Who leads, as this process knows it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Standing {
    /// Nobody that is known: the store has not answered yet, or a term was lost just now.
    Unknown,
    /// This process leads.
    Leads(Term),
    /// Another one leads, as of the last answer of the store.
    Follows(Holder),
    /// This campaign is over.
    Over,
}

/// A campaign to lead: it goes on in the background until it is [resigned](Campaign::resign) or dropped, or the server
/// begins to shut down.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let jobs = jobs::builder().without_jobs().url("memory://campaign").start_all().await?;
/// let campaign = jobs.leader("cron-scheduler").ttl("10s").campaign()?;
/// let term = campaign.elected().await?;
/// assert!(campaign.is_leader() && term.fence() > 0);
/// campaign.resign().await?;
/// assert!(term.is_lost());
/// # jobs.shutdown().await;
/// # Ok(()) }
/// ```
#[must_use = "dropping this handle ends the campaign, and the term"]
#[derive(Debug)]
pub struct Campaign {
    key: String,
    standing: watch::Receiver<Standing>,
    /// Dropped, it ends the campaign.
    resign: oneshot::Sender<Reply>,
}

impl Campaign {
    pub(crate) fn begin(ask: Ask) -> Self {
        let (told, standing) = watch::channel(Standing::Unknown);
        let (resign, resigned) = oneshot::channel();
        let (server, key) = (ask.options.server.clone(), ask.options.key.clone());
        drop(server.host.clone().spawn(async move {
            let _loud = FailOnPanic(server);
            run(ask, Announced(told), resigned).await;
        }));
        Self { key, standing, resign }
    }

    /// Waits until this process leads.
    pub async fn elected(&self) -> Result<Term, LockError> {
        let mut standing = self.standing.clone();
        loop {
            match &*standing.borrow_and_update() {
                Standing::Leads(term) if !term.is_over() => return Ok(term.clone()),
                Standing::Over => return Err(LockError::ended(&self.key)),
                _ => {}
            }
            if standing.changed().await.is_err() {
                return Err(LockError::ended(&self.key));
            }
        }
    }

    /// Who leads, as this process knows it, and every change of it.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let jobs = jobs::builder().without_jobs().url("memory://watch").start_all().await?;
    /// use jobs::locks::Standing;
    ///
    /// let campaign = jobs.leader("cron-scheduler").campaign()?;
    /// let mut standing = campaign.watch();
    /// loop {
    ///     match &*standing.borrow_and_update() {
    ///         Standing::Leads(term) => println!("leads, under the fence {}", term.fence()),
    ///         Standing::Follows(leader) => println!("follows {:?}", leader.server),
    ///         Standing::Over => break,
    ///         _ => println!("does not know"),
    ///     }
    ///     # if campaign.is_leader() { break }
    ///     standing.changed().await?;
    /// }
    /// # jobs.shutdown().await;
    /// # Ok(()) }
    /// ```
    pub fn watch(&self) -> watch::Receiver<Standing> {
        self.standing.clone()
    }

    /// Whether this process leads, and can prove it. Costs no trip to the store.
    pub fn is_leader(&self) -> bool {
        matches!(&*self.standing.borrow(), Standing::Leads(term) if !term.is_lost())
    }

    /// Waits until this process does not lead, or not any more.
    pub async fn lost(&self) {
        let term = match &*self.standing.borrow() {
            Standing::Leads(term) => term.clone(),
            _ => return,
        };
        term.lost().await;
    }

    /// Steps down if this process leads, which lets another one lead at once, and campaigns no more.
    pub async fn resign(self) -> Result<(), LockError> {
        let (done, result) = oneshot::channel();
        drop(self.resign.send(done)); // if the campaign is over, nobody answers
        result.await.unwrap_or_else(|_| Err(LockError::Ended { key: self.key }))
    }
}

/// Tells who leads; at the end, that the campaign is over.
struct Announced(watch::Sender<Standing>);

impl Announced {
    fn tell(&self, standing: Standing) {
        self.0.send_replace(standing);
    }

    /// Only if it is news: how long its lease lasts changes all the time.
    fn tell_who_leads(&self, leader: &Holder) {
        self.0.send_if_modified(|standing| {
            let known = matches!(standing, Standing::Follows(known)
                if known.server == leader.server && known.since == leader.since);
            *standing = Standing::Follows(leader.clone());
            !known
        });
    }
}

impl Drop for Announced {
    fn drop(&mut self) {
        self.tell(Standing::Over);
    }
}

/// After a refusal that will not pass by itself soon.
const AFTER_TROUBLE: Duration = Duration::from_secs(5);

async fn run(ask: Ask, announced: Announced, mut resigned: oneshot::Receiver<Reply>) {
    let server = ask.options.server.clone();
    // Once it has happened it stays so: it is looked at in many places.
    let mut how = None;
    let mut end = async |how: &mut Option<Option<Reply>>| {
        if how.is_none() {
            *how = Some(tokio::select! {
                () = server.stop.raised() => None,
                reply = &mut resigned => reply.ok(),
            });
        }
    };
    loop {
        let decision = ask.decide(end(&mut how), |leader| announced.tell_who_leads(leader)).await;
        let term = match decision {
            Ok(Decision::Won(lease)) => {
                let (guard, holding) = Holding::begin(&ask, lease);
                let loud = FailOnPanic(Arc::clone(&server));
                drop(server.host.spawn(async move {
                    let _loud = loud;
                    holding.keep().await;
                }));
                Term::new(guard)
            }
            Err(Stop::Gone | Stop::Because(LockError::Ended { .. })) => break,
            Err(Stop::Because(error)) => {
                let key = &ask.options.key;
                tracing::warn!(target: "jobs", key, %error, "[{key}] cannot campaign to lead; trying on");
                announced.tell(Standing::Unknown);
                tokio::select! {
                    () = end(&mut how) => break,
                    () = sleep(AFTER_TROUBLE) => continue,
                }
            }
            // A campaign waits for ever.
            Ok(Decision::Done(_) | Decision::Held { .. }) => continue,
        };
        if how.is_some() || server.stop.is_raised() {
            let office = term.guard();
            let result = office.end(office.ending(RunOutcome::NotStarted)).await;
            if let Some(reply) = how.flatten() {
                drop(reply.send(result)); // who asked may be gone
            }
            return;
        }
        announced.tell(Standing::Leads(term.clone()));
        tokio::select! {
            () = end(&mut how) => {
                let office = term.guard();
                match how.flatten() {
                    Some(reply) => {
                        let result = office.end(office.ending(RunOutcome::Succeeded)).await;
                        drop(reply.send(result)); // who asked may be gone
                    }
                    // It is released when the work that goes on under it has let go of it.
                    None => office.step_down(),
                }
                return;
            }
            () = term.lost() => announced.tell(Standing::Unknown),
        }
        if term.has_resigned() {
            tokio::select! {
                () = end(&mut how) => break,
                () = sleep(Pause::default().next(true)) => {}
            }
        }
    }
    if let Some(reply) = how.flatten() {
        drop(reply.send(Ok(()))); // who asked may be gone
    }
}
