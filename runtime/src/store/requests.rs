//! Look, decide, swap: how every message reaches the store.

use std::borrow::Cow;
use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::{Mutex as Turn, OwnedMutexGuard};
use tokio::time::{Instant, sleep, timeout};

use super::decide::{self, Decision, Seen};
use super::messages::{
    Cancelled, Claim, ClaimReply, Ending, ExtendReply, ForgetReply, HeldLock, History, Kind, Lease,
    ReleaseReply, RequestHint, Requested, RunRequest, ServerInfo, Verdict, What,
};
use super::{
    Change, FenceChange, Lock, LockChange, Look, Note, Store, StoreError, StoreErrorKind, StoreFuture, Swap,
    SwapReply, Swapped, Topic, Version,
};
use crate::Timestamp;
use crate::store_time::{Moment, StoreTime};
use crate::util::random;

/// Hears how requests fare.
pub(crate) trait Observe: Send + Sync {
    /// The store has answered a request of this step.
    fn answered(&self, step: &'static str);
    /// A request of this step has failed.
    fn failed(&self, step: &'static str, error: &StoreError);
}

/// What requests to one store share.
pub(crate) struct Requests<'a> {
    pub(crate) store: &'a dyn Store,
    pub(crate) time: &'a StoreTime,
    pub(crate) turns: &'a Turns,
    pub(crate) observe: &'a dyn Observe,
    /// How long the store may take to answer.
    pub(crate) within: Duration,
}

/// The answer to a message.
#[derive(Debug)]
pub(crate) struct Answer<T> {
    pub(crate) reply: T,
    /// The store's clock at the answer.
    pub(crate) now: Timestamp,
    /// Just before the last request was sent.
    pub(crate) sent: Moment,
    /// The fence of a lease that was won with it.
    pub(crate) fence: Option<i64>,
    /// The record as it was written, if it was.
    pub(crate) written: Option<Cached>,
}

/// A record as this process wrote it last: the next swap needs no look, if nothing has changed since.
#[derive(Clone, Debug)]
pub(crate) struct Cached {
    look: Look,
    received: Instant,
}

impl Cached {
    fn new(swapped: Swapped, lock: Option<Lock>, change: Change) -> Option<Self> {
        let lock = match change.lock {
            LockChange::Leave => lock,
            LockChange::Delete => None,
            LockChange::Set { token, until } => Some(Lock { token, until: Some(until) }),
        };
        let Swapped { now, version, fence } = swapped;
        let look = Look { now, version: Some(version), fence, state: change.state?, lock };
        Some(Self { look, received: Instant::now() })
    }

    /// The look that the store would show if nothing has changed since, with a lower bound of its clock.
    fn look(&self) -> Look {
        Look { now: self.look.now.plus(self.received.elapsed()), ..self.look.clone() }
    }
}

/// Swaps of a claim that were sent and not answered: they may have been applied, and may yet be.
#[derive(Debug, Default)]
pub(crate) struct Outstanding {
    token: Arc<str>,
    sent: Option<Sent>,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    /// The version that they expect; `None` if they differ, or expect no record.
    expected: Option<Version>,
    not_after: Option<Timestamp>,
}

impl Outstanding {
    /// Nothing was sent with this token yet.
    pub(crate) fn of(token: Arc<str>) -> Self {
        Self { token, sent: None }
    }

    pub(crate) fn exists(&self) -> bool {
        self.sent.is_some()
    }

    fn add(&mut self, swap: &Swap) {
        let sent = Sent { expected: swap.expected, not_after: swap.change.not_after };
        self.sent = Some(match self.sent {
            None => sent,
            Some(earlier) => Sent {
                expected: sent.expected.filter(|expected| earlier.expected == Some(*expected)),
                not_after: sent.not_after.max(earlier.not_after),
            },
        });
    }

    /// What the store shows may rule out that one has won, or may still win. A version never comes back, but "no record"
    /// may.
    fn compare(&mut self, look: &Look) {
        let state = &look.state;
        let has_won = state.claimant.as_ref().is_some_and(|own| own.token == self.token && !own.released)
            || state.slots.held.iter().any(|slot| slot.token == self.token);
        self.sent.take_if(|sent| {
            let replaced = sent.expected.is_some() && look.version != sent.expected;
            !has_won && (replaced || sent.not_after.is_some_and(|limit| look.now > limit))
        });
    }
}

/// What became of an unanswered claim.
pub(crate) enum GivenBack {
    /// It holds nothing, and never will.
    Done,
    /// Nothing yet, but a late request may still win; ask again after this long.
    AskAgain(Duration),
}

/// Where a decision begins.
enum Start {
    /// With a look.
    Look,
    /// With what the store is expected to show. Only a decision that is swapped in counts; else it looks.
    Expect(Look),
}

/// The record of a semaphore's slots is not that of a lock with the same key. No key of a user's contains a `#`.
fn slots_key(key: &str) -> String {
    format!("{key}{SLOTS}")
}

const SLOTS: &str = "#slots";

/// The key of the record that a lease of this kind is in.
pub(crate) fn record_key(key: &str, kind: Kind) -> Cow<'_, str> {
    match kind {
        Kind::Slot { .. } => slots_key(key).into(),
        _ => key.into(),
    }
}

impl Requests<'_> {
    /// The store's time.
    pub(crate) async fn ping(&self) -> Result<Timestamp, StoreError> {
        // A key that no job, lock or semaphore can have.
        let now = self.look("ping", "#ping").await?.now;
        self.observe.answered("ping");
        Ok(now)
    }

    /// Claims a key. `is_new` if this is the claim's first question, and the key probably free: then it is the swap itself.
    pub(crate) async fn claim(
        &self,
        key: &str,
        claim: &Claim,
        is_new: bool,
        outstanding: &mut Outstanding,
    ) -> Result<Answer<Verdict>, StoreError> {
        let key = &*record_key(key, claim.what.kind());
        let _turn = match claim.what {
            What::Slot(_) => self.turn(key).await,
            _ => None,
        };
        let start = match claim.what {
            What::Lock | What::Once | What::Leader if is_new => Start::Expect(Look::nothing(self.time.now())),
            _ => Start::Look,
        };
        let is_won = |verdict: &Verdict| matches!(verdict.decision, ClaimReply::Won(_));
        let mut answer =
            self.decide("claim", key, start, outstanding, is_won, |look| decide::claim(look, claim)).await?;
        if let (ClaimReply::Won(won), Some(fence)) = (&mut answer.reply.decision, answer.fence) {
            won.fence = fence;
        }
        Ok(answer)
    }

    /// Releases whatever an unanswered claim has won, once.
    pub(crate) async fn give_back(
        &self,
        key: &str,
        lease: &Lease,
        end: &Ending,
        outstanding: &mut Outstanding,
    ) -> Result<GivenBack, StoreError> {
        let look = self.look("release", &record_key(key, lease.kind)).await?;
        outstanding.compare(&look);
        if decide::release(&look, lease, end).reply == ReleaseReply::Released {
            self.release(key, lease, end, None).await?;
            return Ok(GivenBack::Done);
        }
        Ok(match &outstanding.sent {
            None => GivenBack::Done,
            Some(sent) => {
                let limit = sent.not_after.unwrap_or(look.now);
                GivenBack::AskAgain(limit.since(look.now) + Duration::from_millis(1))
            }
        })
    }

    /// Extends a lease; in one round trip if the record is as it was written last.
    pub(crate) async fn extend(
        &self,
        key: &str,
        lease: &Lease,
        cached: Option<&Cached>,
    ) -> Result<Answer<ExtendReply>, StoreError> {
        let start = cached.map_or(Start::Look, |cached| Start::Expect(cached.look()));
        let is_kept = |reply: &ExtendReply| matches!(reply, ExtendReply::Kept { .. });
        self.decide(
            "extend",
            &record_key(key, lease.kind),
            start,
            &mut Outstanding::default(),
            is_kept,
            |look| decide::extend(look, lease),
        )
        .await
    }

    /// Ends a lease; in one round trip if the record is as it was written last.
    pub(crate) async fn release(
        &self,
        key: &str,
        lease: &Lease,
        end: &Ending,
        cached: Option<&Cached>,
    ) -> Result<Answer<ReleaseReply>, StoreError> {
        let key = &*record_key(key, lease.kind);
        let _turn = match lease.kind {
            Kind::Slot { .. } => self.turn(key).await,
            _ => None,
        };
        // How long work counts as done is counted from the store's own time.
        let cached = cached.filter(|_| end.done_for.is_none());
        let start = cached.map_or(Start::Look, |cached| Start::Expect(cached.look()));
        let is_released = |reply: &ReleaseReply| *reply == ReleaseReply::Released;
        let nothing = &mut Outstanding::default();
        self.decide("release", key, start, nothing, is_released, |look| decide::release(look, lease, end))
            .await
    }

    pub(crate) async fn set_paused(&self, key: &str, paused: bool) -> Result<(), StoreError> {
        let step = if paused { "pause" } else { "resume" };
        self.change(step, key, |look| decide::set_paused(look, paused)).await
    }

    pub(crate) async fn reset(&self, key: &str) -> Result<(), StoreError> {
        self.change("reset", key, decide::reset).await
    }

    pub(crate) async fn cancel(&self, key: &str, by: &Arc<str>) -> Result<Cancelled, StoreError> {
        let seen = OnceLock::new();
        let decide = |look: &Look| decide::cancel(look, seen.get_or_init(|| Seen::in_look(look)), by);
        self.change("cancel", key, decide).await
    }

    /// Removes all that is known of a job, and of a semaphore with the same key.
    pub(crate) async fn forget(&self, key: &str, quiet: Duration) -> Result<ForgetReply, StoreError> {
        let slots = self.look("forget", &slots_key(key)).await?;
        if slots.version.is_some() {
            let forgotten =
                self.change("forget", &slots_key(key), |look| decide::forget(look, quiet)).await?;
            if forgotten != ForgetReply::Forgotten {
                return Ok(forgotten);
            }
        }
        self.change("forget", key, |look| decide::forget(look, quiet)).await
    }

    /// Frees a key, and every slot of it.
    pub(crate) async fn break_lock(
        &self,
        key: &str,
        by: &Arc<str>,
        remember: usize,
    ) -> Result<Vec<HeldLock>, StoreError> {
        let mut broken = Vec::new();
        for record in [Cow::Borrowed(key), slots_key(key).into()] {
            let seen = OnceLock::new();
            let decide = |look: &Look| {
                decide::break_lock(look, key, seen.get_or_init(|| Seen::in_look(look)), by, remember)
            };
            broken.extend(self.change("break_lock", &record, decide).await?);
        }
        Ok(broken)
    }

    /// Asks for a manual run on a server that has the job. Servers hear of it at their next heartbeat, so the note follows
    /// the request: a server that reads the note finds the request.
    pub(crate) async fn request(&self, key: &str, request: &RunRequest) -> Result<Requested, StoreError> {
        let counts = self.change("request", key, |look| decide::request(look, request)).await?;
        let note = Note { name: key.to_owned(), text: counts.id.as_str().into() };
        // The request that counts may be an earlier one, and last longer or shorter than this one.
        let ttl = counts.until.since(self.time.now());
        self.ask("request", self.store.put_note(Topic::Requests, &note, ttl)).await?;
        Ok(counts)
    }

    /// What is known of a job, and the store's time.
    pub(crate) async fn history(&self, key: &str) -> Result<(History, Timestamp), StoreError> {
        let look = self.look("history", key).await?;
        let records = self.ask("history", self.store.records(key)).await?;
        self.observe.answered("history");
        Ok((decide::history(&look, records), look.now))
    }

    /// The locks and slots that are held.
    pub(crate) async fn locks(&self) -> Result<Vec<HeldLock>, StoreError> {
        let mut held = HashMap::new();
        let mut next = None;
        loop {
            let page = self.ask("locks", self.store.list(next.as_deref())).await?;
            for (key, look) in page.keys {
                let locks = decide::held(&look, key.strip_suffix(SLOTS).unwrap_or(&key));
                held.insert(key, locks);
            }
            next = page.next;
            if next.is_none() {
                break;
            }
        }
        self.observe.answered("locks");
        let mut held: Vec<_> = held.into_values().flatten().collect();
        held.sort_by(|one, other| (&one.key, one.fence).cmp(&(&other.key, other.fence)));
        Ok(held)
    }

    /// Announces a server for so long, and returns which runs were requested.
    pub(crate) async fn announce(
        &self,
        server: &str,
        about: Arc<str>,
        ttl: Duration,
    ) -> Result<Vec<RequestHint>, StoreError> {
        let note = Note { name: server.to_owned(), text: about };
        let sent = Instant::now();
        let now = self.ask("announce", self.store.put_note(Topic::Servers, &note, ttl)).await?;
        self.time.learn(sent, now);
        let requests = self.ask("announce", self.store.notes(Topic::Requests)).await?.notes;
        self.observe.answered("announce");
        Ok(requests
            .into_iter()
            .map(|note| RequestHint { key: note.name, id: note.text.to_string() })
            .collect())
    }

    /// This server is gone.
    pub(crate) async fn leave(&self, server: &str) -> Result<(), StoreError> {
        let note = Note { name: server.to_owned(), text: "".into() };
        self.ask("leave", self.store.put_note(Topic::Servers, &note, Duration::ZERO)).await.map(drop)
    }

    /// The servers whose announcements have not expired. What a newer version announces may not be readable; the others
    /// still are.
    pub(crate) async fn servers(&self) -> Result<Vec<ServerInfo>, StoreError> {
        let notes = self.ask("servers", self.store.notes(Topic::Servers)).await?.notes;
        self.observe.answered("servers");
        Ok(notes.iter().filter_map(|note| serde_json::from_str(&note.text).ok()).collect())
    }

    /// A message that is not about a lease.
    async fn change<T>(
        &self,
        step: &'static str,
        key: &str,
        decide: impl Fn(&Look) -> Decision<T> + Send + Sync,
    ) -> Result<T, StoreError> {
        let nothing = &mut Outstanding::default();
        Ok(self.decide(step, key, Start::Look, nothing, |_| true, decide).await?.reply)
    }

    /// Decides on a look, and swaps the change in; decides anew as often as the key has changed meanwhile.
    ///
    /// A decision that was made without a look counts only if `counts` accepts its reply and the swap is applied.
    async fn decide<T>(
        &self,
        step: &'static str,
        key: &str,
        start: Start,
        outstanding: &mut Outstanding,
        counts: impl Fn(&T) -> bool,
        decide: impl Fn(&Look) -> Decision<T>,
    ) -> Result<Answer<T>, StoreError> {
        let mut sent = self.time.moment();
        let (mut look, mut is_expected) = match start {
            Start::Expect(look) => (look, true),
            Start::Look => (self.look(step, key).await?, false),
        };
        let mut contention = Contention::new(step, self.within);
        loop {
            if !is_expected {
                outstanding.compare(&look);
            }
            let Decision { reply, change } = decide(&look);
            let change = match change {
                Some(change) if !is_expected || counts(&reply) => change,
                None if !is_expected => {
                    self.observe.answered(step);
                    return Ok(Answer { reply, now: look.now, sent, fence: None, written: None });
                }
                _ => {
                    sent = self.time.moment();
                    (look, is_expected) = (self.look(step, key).await?, false);
                    continue;
                }
            };
            let swap = Swap {
                expected: look.version,
                expected_lock: look.lock.as_ref().map(|lock| lock.token.clone()),
                nonce: random(),
                change,
            };
            let earlier = outstanding.sent;
            outstanding.add(&swap);
            sent = self.time.moment();
            let answer = self.ask(step, self.store.swap(key, &swap)).await?;
            self.time.learn(sent.steady, answer.now());
            outstanding.sent = earlier;
            match answer {
                SwapReply::Swapped(swapped) => {
                    self.observe.answered(step);
                    let fence = (swap.change.fence == FenceChange::Next).then_some(swapped.fence);
                    let written = Cached::new(swapped, look.lock, swap.change);
                    return Ok(Answer { reply, now: swapped.now, sent, fence, written });
                }
                SwapReply::Changed(changed) => (look, is_expected) = (changed, false),
            }
            match contention.pause().await {
                Next::Decide => {}
                Next::Look => {
                    sent = self.time.moment();
                    look = self.look(step, key).await?;
                }
                Next::GiveUp => {
                    let cause = format!("[{key}] changed at every attempt");
                    return Err(StoreError::new(
                        StoreErrorKind::TimedOut,
                        step,
                        self.store.location(),
                        cause,
                    ));
                }
            }
        }
    }

    /// This process's turn at a semaphore. Who has waited long goes on without it: turns only make swaps succeed sooner.
    async fn turn(&self, key: &str) -> Option<OwnedMutexGuard<()>> {
        timeout(self.within, self.turns.take(key)).await.ok()
    }

    async fn look(&self, step: &'static str, key: &str) -> Result<Look, StoreError> {
        let sent = Instant::now();
        let look = self.ask(step, self.store.look(key)).await?;
        self.time.learn(sent, look.now);
        Ok(look)
    }

    /// One request to the store, in time.
    pub(crate) async fn ask<T>(
        &self,
        step: &'static str,
        mut request: StoreFuture<'_, T>,
    ) -> Result<T, StoreError> {
        // A store in memory has answered by now, and needs no timer.
        let result = match poll_fn(|polling| Poll::Ready(request.as_mut().poll(polling))).await {
            Poll::Ready(result) => result,
            // Boxed, so that a request that need not wait stays small.
            Poll::Pending => Box::pin(timeout(self.within, request)).await.unwrap_or_else(|_| {
                let cause = format!("no answer within {:?}", self.within);
                Err(StoreError::new(StoreErrorKind::TimedOut, step, self.store.location(), cause))
            }),
        };
        match &result {
            Ok(_) => self.observe.answered("reach"),
            Err(error) => self.observe.failed(step, error),
        }
        result
    }
}

/// Decisions on one key that the key's changes keep undoing.
///
/// Who holds a lease does not pause: a claim that is late wins later, an extension or a release that is late costs a lease.
struct Contention {
    is_holder: bool,
    give_up: Instant,
    attempts: u32,
}

/// What follows a swap that was refused.
enum Next {
    /// The key is as it was shown with the refusal.
    Decide,
    /// It may have changed during the pause: a swap that expects what was shown before would be refused again.
    Look,
    GiveUp,
}

/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// So often the key may change before time counts.
const ALWAYS: u32 = 8;

impl Contention {
    fn new(step: &'static str, within: Duration) -> Self {
        let is_holder = matches!(step, "extend" | "release");
        Self { is_holder, give_up: Instant::now() + within, attempts: 0 }
    }

    /// A pause that grows with every attempt but the first, with jitter: competitors must not stay in step.
    async fn pause(&mut self) -> Next {
        self.attempts += 1;
        if self.attempts > ALWAYS && Instant::now() >= self.give_up {
            return Next::GiveUp;
        }
        if self.is_holder || self.attempts == 1 {
            return Next::Decide;
        }
        let longest = Duration::from_micros(500 << self.attempts.min(6)).min(LONGEST_PAUSE);
        let part = u32::try_from(random() >> 40).unwrap_or_default() % 1000;
        sleep(longest * part / 1000).await;
        Next::Look
    }
}

/// The claims and releases of this process on one semaphore take turns: only one of them at a time competes with other
/// processes.
#[derive(Default)]
pub(crate) struct Turns(Mutex<HashMap<String, Arc<Turn<()>>>>);

impl Turns {
    async fn take(&self, key: &str) -> OwnedMutexGuard<()> {
        let turn = {
            let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if turns.len() >= 64 {
                turns.retain(|_, turn| Arc::strong_count(turn) > 1);
            }
            turns.entry(key.to_owned()).or_default().clone()
        };
        turn.lock_owned().await
    }
}
