//! One sequence, sent to the store and to the model in lock step.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use jobs::store::model::{self, Lock, State};
use jobs::store::{Claim, ClaimReply, Ending, ExtendReply, Holder, Lease, StoreError, TickClaim, What, Won};
use jobs::{Overlap, Timestamp};

use super::sequence::{Ask, Locker, SERVERS, Step, Twist};
use super::support::subject::Subject;

pub enum Verdict {
    Same,
    /// A step fell so shortly after the expiry of a stranger's lock that the store may have seen it still: it
    /// expires keys by the time when the step began, and answers with a time a moment later.
    Undecided,
    Different(String),
}

/// How shortly after an expiry is too close, and how far off the rest of a stranger's lock may be.
const BLUR: Duration = Duration::from_millis(2);

pub async fn compare(subject: &Subject, steps: &[Step]) -> Verdict {
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
    tokens: [Option<String>; SERVERS.len()],
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
            Step::Claim { server, again, ref ask, ttl } => self.claim(server, again, ask.as_ref(), ttl).await,
            Step::Extend { lease, twist } => self.extend(lease, twist).await,
            Step::Release { lease, twist, outcome, error } => {
                self.release(lease, twist, &Ending { outcome, error: error.map(str::to_owned) }).await
            }
            Step::Pause(paused) => {
                self.subject.store.set_paused(self.key, paused).await.map_err(|error| failed(&error))?;
                model::set_paused(&mut self.model, paused);
                Ok(())
            }
            Step::Reset => {
                let at = self.subject.store.reset(self.key).await.map_err(|error| failed(&error))?.at;
                model::reset(&mut self.model, at);
                Ok(())
            }
            Step::LockVanishes => {
                self.subject.tamper.remove_lock(self.key).await;
                (self.model.lock, self.last_lock) = (None, None);
                Ok(())
            }
            Step::LockIsSet { to, lasts } => self.set_lock(to, lasts).await,
            Step::Wipe => {
                self.subject.tamper.wipe(self.key).await;
                (self.model, self.last_lock) = (State::default(), None);
                Ok(())
            }
            Step::Sleep(millis) => {
                tokio::time::sleep(Duration::from_millis(millis)).await;
                Ok(())
            }
        }
    }

    async fn claim(
        &mut self,
        server: usize,
        again: bool,
        ask: Option<&Ask>,
        ttl: u64,
    ) -> Result<(), Verdict> {
        if !again || self.tokens[server].is_none() {
            self.claims += 1;
            self.tokens[server] = Some(format!("{}-token-{}", self.key, self.claims));
        }
        let claim = Claim {
            token: self.tokens[server].clone().unwrap_or_default(),
            server: SERVERS[server].to_owned(),
            ttl: Duration::from_millis(ttl),
            what: ask.map_or(What::Now, |ask| What::Tick(self.tick_claim(ask))),
        };
        let answer = self.subject.store.claim(self.key, &claim).await.map_err(|error| failed(&error))?;
        self.decidable(answer.at)?;
        let expected = model::claim(&mut self.model, answer.at, &claim);
        if !alike(&answer.reply, &expected) {
            return Err(different(&format!("{claim:?}"), answer.at, &answer.reply, &expected));
        }
        if let ClaimReply::Won(won) = answer.reply {
            self.learn(claim, won);
        }
        Ok(())
    }

    fn tick_claim(&self, ask: &Ask) -> TickClaim {
        TickClaim {
            tick: Timestamp::from_micros(self.start.as_micros() + ask.tick * 1_000),
            delay: Duration::from_millis(ask.delay),
            grace: Duration::from_millis(ask.grace),
            overlap: if ask.queue { Overlap::Queue } else { Overlap::Skip },
            takeovers: ask.takeovers,
        }
    }

    fn learn(&mut self, claim: Claim, won: Won) {
        let Won { fence, attempt, since, until } = won;
        if let Some(known) = self.leases.iter_mut().find(|lease| lease.token == claim.token) {
            known.until = until;
            return;
        }
        let tick = match claim.what {
            What::Tick(ask) => Some(ask.tick),
            What::Now => None,
        };
        let Claim { token, server, ttl, .. } = claim;
        self.leases.insert(0, Lease { token, server, ttl, tick, attempt, fence, since, until });
    }

    async fn extend(&mut self, lease: usize, twist: Twist) -> Result<(), Verdict> {
        let Some(sent) = self.message(lease, twist) else { return Ok(()) };
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

    async fn release(&mut self, lease: usize, twist: Twist, end: &Ending) -> Result<(), Verdict> {
        let Some(sent) = self.message(lease, twist) else { return Ok(()) };
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
    fn message(&self, lease: usize, twist: Twist) -> Option<Lease> {
        let lease = self.leases.get(lease % self.leases.len().max(1))?.clone();
        Some(match twist {
            Twist::None => lease,
            Twist::UnknownFence => Lease { fence: model::UNKNOWN_FENCE, ..lease },
            Twist::AFenceFromTheFuture => Lease { fence: lease.fence + 3_600_000_000, ..lease },
            Twist::OlderFence => Lease { fence: lease.fence - 1, ..lease },
            Twist::AnEarlierUntil => Lease { until: lease.since, ..lease },
            Twist::ALaterUntil => Lease { until: lease.until.plus(Duration::from_secs(10)), ..lease },
            Twist::ATickFromTheFuture => {
                Lease { tick: Some(self.start.plus(Duration::from_millis(60))), ..lease }
            }
        })
    }

    async fn set_lock(&mut self, to: Locker, lasts: Option<u64>) -> Result<(), Verdict> {
        let token = match to {
            Locker::Stranger => "stranger".to_owned(),
            Locker::HolderOf(lease) => match self.message(lease, Twist::None) {
                Some(lease) => lease.token,
                None => return Ok(()),
            },
        };
        let now = self.subject.store.ping().await.map_err(|error| failed(&error))?.at.as_micros();
        let until = lasts.map(|millis| {
            Timestamp::from_micros((now / 1_000 + i64::try_from(millis).unwrap_or(i64::MAX)) * 1_000)
        });
        self.subject.tamper.set_lock(self.key, &token, until).await;
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
        let answer = self.subject.store.history(self.key).await.map_err(|error| failed(&error))?;
        let expected = self.model.history();
        if answer.reply != expected {
            return Err(different("history", answer.at, &answer.reply, &expected));
        }
        let until = self.last_lock.as_ref().and_then(|lock| lock.until);
        if let Some(until) = until.filter(|until| until.since(answer.at) < Duration::from_millis(50)) {
            tokio::time::sleep(until.plus(2 * BLUR).since(answer.at)).await;
        }
        self.lock_is_the_same().await
    }

    /// Says nothing about a lock that expires meanwhile.
    async fn lock_is_the_same(&self) -> Result<(), Verdict> {
        let before = self.subject.store.ping().await.map_err(|error| failed(&error))?.at;
        let lock = self.subject.tamper.lock(self.key).await;
        let after = self.subject.store.ping().await.map_err(|error| failed(&error))?.at;
        let last_until = self.last_lock.as_ref().and_then(|lock| lock.until);
        if last_until.is_some_and(|until| until.plus(BLUR) > before && until.minus(BLUR) < after) {
            return Ok(());
        }
        let expected = self.model.lock.as_ref().filter(|lock| lock.until.is_none_or(|until| until > after));
        let expected = expected.map(|lock| lock.token.clone());
        if lock == expected { Ok(()) } else { Err(different("the lock", after, &lock, &expected)) }
    }
}

/// Equal, but for how long a stranger's lock still lasts: only the store knows, to the millisecond.
fn alike(answer: &ClaimReply, expected: &ClaimReply) -> bool {
    let stranger = |reply: &ClaimReply| match reply {
        ClaimReply::Held(Holder { server: None, remaining, .. }) => *remaining,
        _ => None,
    };
    match (stranger(answer), stranger(expected)) {
        (Some(answer), Some(expected)) => answer.abs_diff(expected) <= BLUR,
        _ => answer == expected,
    }
}

fn failed(error: &StoreError) -> Verdict {
    Verdict::Different(error.to_string())
}

fn different(step: &str, at: Timestamp, answer: &impl Debug, expected: &impl Debug) -> Verdict {
    Verdict::Different(format!("at {at}, {step}\n  store: {answer:?}\n  model: {expected:?}"))
}
