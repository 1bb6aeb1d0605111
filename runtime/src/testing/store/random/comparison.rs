//! One sequence, sent to the store and to the model in lock step.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::Timestamp;
use crate::store::model::{self, Lock, State};
use crate::store::{Claim, ClaimReply, ExtendReply, ForgetReply, Lease, RunRequest, StoreError, Won};

use super::super::bench::lease;
use super::super::{Need, Subject};
use super::likeness::{self, alike};
use super::message;
use super::sequence::{End, Locker, REQUESTS, SERVERS, Step, Twist};

pub(super) enum Verdict {
    Same,
    /// A step fell so shortly after the expiry of a stranger's lock that the store may have seen it still: it
    /// expires keys by the time when the step began, and answers with a time a moment later.
    Undecided,
    Different(String),
}

/// How shortly after an expiry is too close.
const BLUR: Duration = Duration::from_millis(5);

pub(super) async fn compare(subject: &Subject, steps: &[Step]) -> Verdict {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let key = format!("sequence-{}", COUNT.fetch_add(1, Ordering::Relaxed));
    match Comparison::run(subject, &key, steps).await {
        Ok(()) => Verdict::Same,
        Err(verdict) => verdict,
    }
}

struct Comparison<'a> {
    subject: &'a Subject,
    key: &'a str,
    start: Timestamp,
    model: State,
    /// The lock as it was last seen in the model; it may have expired since.
    last_lock: Option<Lock>,
    tokens: [Option<Arc<str>>; SERVERS.len()],
    claims: u32,
    leases: Vec<Lease>,
}

impl<'a> Comparison<'a> {
    async fn run(subject: &'a Subject, key: &'a str, steps: &[Step]) -> Result<(), Verdict> {
        let start = subject.store.ping().await.map_err(|error| failed(&error))?.at;
        let mut comparison = Self {
            subject,
            key,
            start,
            model: State::default(),
            last_lock: None,
            tokens: Default::default(),
            claims: 0,
            leases: Vec::new(),
        };
        for step in steps {
            comparison.step(step).await?;
            comparison.last_lock = comparison.model.lock.clone().or(comparison.last_lock);
            comparison.lock_is_the_same().await?;
        }
        comparison.remains().await
    }

    async fn step(&mut self, step: &Step) -> Result<(), Verdict> {
        match *step {
            Step::Claim { server, again, ref wants, ttl, remember, waits } => {
                let (token, what) = (self.token(server, again), message::what(self.start, wants));
                let (server, ttl) = (SERVERS[server].into(), Duration::from_millis(ttl));
                self.claim(&Claim { token, server, ttl, what, remember, waits }).await
            }
            Step::Extend { lease, twist, progress } => self.extend(lease, twist, progress).await,
            Step::Release { lease, twist, progress, ref end } => {
                self.release(lease, twist, progress, end).await
            }
            Step::Pause(paused) => {
                let at =
                    self.subject.store.set_paused(self.key, paused).await.map_err(|error| failed(&error))?.at;
                model::set_paused(&mut self.model, at, paused);
                Ok(())
            }
            Step::Reset => {
                let at = self.subject.store.reset(self.key).await.map_err(|error| failed(&error))?.at;
                model::reset(&mut self.model, at);
                Ok(())
            }
            Step::BreakTheLock { remember } => self.break_the_lock(remember).await,
            Step::Forget { quiet } => self.forget(Duration::from_millis(quiet)).await,
            Step::Request { id, by, ttl } => self.request(id, by, ttl).await,
            Step::LookAtTheHistory => self.history_is_the_same().await.map(drop),
            Step::LockVanishes | Step::LockIsSet { .. } if !self.subject.can(Need::Lock) => Ok(()),
            Step::Wipe if !self.subject.can(Need::Wipe) => Ok(()),
            Step::LockVanishes => {
                self.subject.hand().remove_lock(self.key).await;
                (self.model.lock, self.last_lock) = (None, None);
                Ok(())
            }
            Step::LockIsSet { to, lasts } => self.set_lock(to, lasts).await,
            Step::Wipe => {
                self.subject.wipe(self.key).await;
                (self.model, self.last_lock) = (State::default(), None);
                Ok(())
            }
            Step::Sleep(millis) => {
                tokio::time::sleep(Duration::from_millis(millis)).await;
                Ok(())
            }
        }
    }

    fn token(&mut self, server: usize, again: bool) -> Arc<str> {
        let known = self.tokens[server].clone().filter(|_| again);
        let token = known.unwrap_or_else(|| {
            self.claims += 1;
            format!("{}-token-{}", self.key, self.claims).into()
        });
        self.tokens[server].insert(token).clone()
    }

    async fn claim(&mut self, claim: &Claim) -> Result<(), Verdict> {
        let answer = self.subject.store.claim(self.key, claim).await.map_err(|error| failed(&error))?;
        self.decidable(answer.at)?;
        let expected = model::claim(&mut self.model, answer.at, claim);
        if !alike(&answer.reply, &expected, &self.model, answer.at) {
            return Err(different(&format!("{claim:?}"), answer.at, &answer.reply, &expected));
        }
        if let ClaimReply::Won(won) = answer.reply.decision {
            self.learn(claim, won);
        }
        Ok(())
    }

    fn learn(&mut self, claim: &Claim, won: Won) {
        match self.leases.iter_mut().find(|lease| lease.token == claim.token) {
            Some(known) => known.until = won.until,
            None => self.leases.insert(0, lease(claim, won)),
        }
    }

    async fn extend(&mut self, lease: usize, twist: Twist, progress: Option<u64>) -> Result<(), Verdict> {
        let Some(sent) = self.message(lease, twist, progress) else { return Ok(()) };
        let answer = self.subject.store.extend(self.key, &sent).await.map_err(|error| failed(&error))?;
        self.decidable(answer.at)?;
        let expected = model::extend(&mut self.model, answer.at, &sent);
        if answer.reply != expected {
            return Err(different(&format!("extend {sent:?}"), answer.at, &answer.reply, &expected));
        }
        if let ExtendReply::Kept(until) | ExtendReply::Restored(until) = answer.reply {
            let index = lease % self.leases.len();
            self.leases[index].until = until;
        }
        Ok(())
    }

    async fn release(
        &mut self,
        lease: usize,
        twist: Twist,
        progress: Option<u64>,
        end: &End,
    ) -> Result<(), Verdict> {
        let Some(sent) = self.message(lease, twist, progress) else { return Ok(()) };
        let end = &message::ending(self.start, end);
        let answer =
            self.subject.store.release(self.key, &sent, end).await.map_err(|error| failed(&error))?;
        self.decidable(answer.at)?;
        let expected = model::release(&mut self.model, answer.at, &sent, end);
        if answer.reply != expected {
            return Err(different(&format!("release {sent:?} {end:?}"), answer.at, &answer.reply, &expected));
        }
        // Deleted or expired a moment ago, it is gone.
        self.last_lock.take_if(|lock| lock.token == sent.token);
        Ok(())
    }

    /// The newest lease is number 0.
    fn message(&self, lease: usize, twist: Twist, progress: Option<u64>) -> Option<Lease> {
        let lease = self.leases.get(lease % self.leases.len().max(1))?.clone();
        Some(message::twisted(
            Lease { progress: progress.map(message::progress), ..lease },
            twist,
            self.start,
        ))
    }

    async fn break_the_lock(&mut self, remember: usize) -> Result<(), Verdict> {
        let answer =
            self.subject.store.break_lock(self.key, remember).await.map_err(|error| failed(&error))?;
        self.decidable(answer.at)?;
        let expected = model::break_lock(&mut self.model, answer.at, self.key, remember);
        if !likeness::broke_alike(&answer.reply, &expected) {
            return Err(different("break_lock", answer.at, &answer.reply, &expected));
        }
        self.last_lock = None;
        Ok(())
    }

    async fn forget(&mut self, quiet: Duration) -> Result<(), Verdict> {
        let answer = self.subject.store.forget(self.key, quiet).await.map_err(|error| failed(&error))?;
        self.decidable(answer.at)?;
        let expected = model::forget(&mut self.model, answer.at, quiet);
        if !likeness::forgot_alike(&answer.reply, &expected) {
            return Err(different(&format!("forget {quiet:?}"), answer.at, &answer.reply, &expected));
        }
        if answer.reply == ForgetReply::Forgotten {
            self.last_lock = None;
        }
        Ok(())
    }

    async fn request(&mut self, id: usize, by: usize, ttl: u64) -> Result<(), Verdict> {
        let (id, by) = (REQUESTS[id].to_owned(), SERVERS[by].to_owned());
        let request = RunRequest { id, by, ttl: Duration::from_millis(ttl) };
        let answer = self.subject.store.request(self.key, &request).await.map_err(|error| failed(&error))?;
        let expected = model::request(&mut self.model, answer.at, &request);
        if answer.reply != expected {
            return Err(different(&format!("{request:?}"), answer.at, &answer.reply, &expected));
        }
        Ok(())
    }

    async fn set_lock(&mut self, to: Locker, lasts: Option<u64>) -> Result<(), Verdict> {
        let token = match to {
            Locker::Stranger => "stranger".into(),
            Locker::HolderOf(lease) => match self.message(lease, Twist::None, None) {
                Some(lease) => lease.token,
                None => return Ok(()),
            },
        };
        let now = self.subject.store.ping().await.map_err(|error| failed(&error))?.at.as_micros();
        let until = lasts.map(|millis| {
            Timestamp::from_micros((now / 1_000 + i64::try_from(millis).unwrap_or(i64::MAX)) * 1_000)
        });
        self.subject.hand().set_lock(self.key, &token, until).await;
        self.model.lock = Some(Lock { token, until });
        Ok(())
    }

    /// A lock with the last claimant's token decides nothing, so only others' can be too close to tell.
    fn decidable(&self, at: Timestamp) -> Result<(), Verdict> {
        let claimant = self.model.claimant.as_ref().map(|claimant| &claimant.token);
        let lock = self.model.lock.as_ref().or(self.last_lock.as_ref());
        match lock.filter(|lock| Some(&lock.token) != claimant).and_then(|lock| lock.until) {
            Some(until) if at >= until && at.since(until) <= BLUR => Err(Verdict::Undecided),
            _ => Ok(()),
        }
    }

    /// What the sequence left behind: the history, and the lock.
    async fn remains(&mut self) -> Result<(), Verdict> {
        let at = self.history_is_the_same().await?;
        let until = self.last_lock.as_ref().and_then(|lock| lock.until);
        if let Some(until) = until.filter(|until| until.since(at) < Duration::from_millis(50)) {
            tokio::time::sleep(until.plus(2 * BLUR).since(at)).await;
        }
        self.lock_is_the_same().await
    }

    async fn history_is_the_same(&self) -> Result<Timestamp, Verdict> {
        let answer = self.subject.store.history(self.key).await.map_err(|error| failed(&error))?;
        let expected = model::history(&self.model, answer.at);
        if answer.reply == expected {
            Ok(answer.at)
        } else {
            Err(different("history", answer.at, &answer.reply, &expected))
        }
    }

    /// Says nothing about a lock that expires meanwhile.
    async fn lock_is_the_same(&self) -> Result<(), Verdict> {
        if !self.subject.can(Need::Lock) {
            return Ok(());
        }
        let before = self.subject.store.ping().await.map_err(|error| failed(&error))?.at;
        let lock = self.subject.hand().lock(self.key).await;
        let after = self.subject.store.ping().await.map_err(|error| failed(&error))?.at;
        let last_until = self.last_lock.as_ref().and_then(|lock| lock.until);
        if last_until.is_some_and(|until| until.plus(BLUR) > before && until.minus(BLUR) < after) {
            return Ok(());
        }
        let expected = self.model.lock.as_ref().filter(|lock| lock.until.is_none_or(|until| until > after));
        let expected = expected.map(|lock| lock.token.to_string());
        if lock == expected { Ok(()) } else { Err(different("the lock", after, &lock, &expected)) }
    }
}

fn failed(error: &StoreError) -> Verdict {
    Verdict::Different(error.to_string())
}

fn different(step: &str, at: Timestamp, answer: &impl Debug, expected: &impl Debug) -> Verdict {
    Verdict::Different(format!("at {at}, {step}\n  store: {answer:?}\n  model: {expected:?}"))
}
