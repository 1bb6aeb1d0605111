//! One sequence: sent to the store, and replayed on plain records.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::Timestamp;
use crate::store::{
    Change, Claim, ClaimDecision, ExtendReply, JobRecords, Lease, Look, Record, RunDetails, SharedLock,
    StoreError, StoreErrorKind, Swap, SwapReply,
};
use crate::testing::{Hook, Intercept};

use super::super::{Capability, Client, Subject};
use super::sequence::{self, LeaseLength, LockOwner, REQUESTS, SERVERS, Step};

/// A lock expires by milliseconds, and may be read just before or after the clock.
const CLOSE: Duration = Duration::from_millis(5);

/// The shortest lease.
const SHORTEST: Duration = Duration::from_millis(40);

/// How long the store may take to answer, or a key may change at every attempt.
const PATIENCE: Duration = Duration::from_secs(1);

/// The swaps of a step, with their keys and answers.
#[derive(Clone, Default)]
struct SwapLog(Arc<Mutex<Vec<(String, Swap, SwapReply)>>>);

impl Hook for SwapLog {
    fn swapped(&self, key: &str, swap: &Swap, reply: &SwapReply) {
        self.0.lock().expect("no panic").push((key.to_owned(), swap.clone(), reply.clone()));
    }
}

struct Replay<'a> {
    subject: &'a Subject,
    key: String,
    client: Client,
    sent: SwapLog,
    /// What the store must hold: for the key, and for its slots.
    references: HashMap<String, ReferenceKey>,
    has_lock: bool,
    start: Timestamp,
    short: Duration,
    claims: Vec<Claim>,
    leases: Vec<Lease>,
    /// Every swap so far, to send copies of.
    swaps: Vec<(String, Swap)>,
}

#[derive(Clone, Default)]
struct ReferenceKey {
    record: Option<Record>,
    lock: Option<SharedLock>,
}

/// Why a sequence ends early.
pub(super) enum ReplayError {
    /// The store differs from the record.
    Different(String),
    /// The store was too slow for the limits of a swap, or an answer did not arrive: what it holds is not known.
    Unknown,
}

impl From<StoreError> for ReplayError {
    fn from(error: StoreError) -> Self {
        match error.kind() {
            StoreErrorKind::TimedOut => Self::Unknown,
            _ => Self::Different(format!("the store failed: {error}")),
        }
    }
}

/// Replays a sequence, and returns the number of its swaps.
pub(super) async fn replay(subject: &Subject, steps: &[Step]) -> Result<u32, ReplayError> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let key = format!("sequence-{}", COUNT.fetch_add(1, Ordering::Relaxed));
    let sent = SwapLog::default();
    let store = Arc::new(Intercept::new(Arc::clone(&subject.store), sent.clone()));
    let client = Client::within(store, PATIENCE);
    let asked = tokio::time::Instant::now();
    let start = client.ping().await?.at;
    let short = (40 * asked.elapsed()).clamp(SHORTEST, 5 * SHORTEST);
    let references = [key.clone(), format!("{key}#slots")].map(|key| (key, ReferenceKey::default()));
    let mut replay = Replay {
        subject,
        key,
        client,
        sent,
        references: references.into(),
        has_lock: subject.can(Capability::Lock),
        start,
        short,
        claims: Vec::new(),
        leases: Vec::new(),
        swaps: Vec::new(),
    };
    for (number, step) in steps.iter().enumerate() {
        let result = match replay.take(step).await {
            Ok(()) => replay.compare().await,
            Err(error) => Err(error.into()),
        };
        result.map_err(|end| match end {
            ReplayError::Different(how) => {
                ReplayError::Different(format!("at step {number}, {step:?}: {how}"))
            }
            ReplayError::Unknown => ReplayError::Unknown,
        })?;
    }
    replay.compare_records().await?;
    Ok(u32::try_from(replay.swaps.len()).unwrap_or(u32::MAX))
}

impl Replay<'_> {
    async fn take(&mut self, step: &Step) -> Result<(), StoreError> {
        let (client, key) = (&self.client, &*self.key);
        match step {
            Step::Claim { server, again, lost, wants, ttl, remember } => {
                let repeated = self.claims.last().filter(|_| *again).cloned();
                let claim = repeated.unwrap_or_else(|| Claim {
                    token: format!("token-{}", self.claims.len()).into(),
                    server: SERVERS[*server].into(),
                    ttl: match ttl {
                        LeaseLength::Short => self.short,
                        LeaseLength::Long => Duration::from_secs(5),
                    },
                    what: sequence::what(self.start, wants),
                    remember: *remember,
                    details: RunDetails { pause_after: 3, ..RunDetails::default() },
                });
                let verdict = client.claim(key, &claim).await?.reply;
                if let (ClaimDecision::Won(won), false) = (&verdict.decision, lost) {
                    self.leases.retain(|lease| lease.token != claim.token);
                    self.leases.push(won.lease.clone());
                }
                self.claims.push(claim);
            }
            Step::Extend { lease, change, progress, reported } => {
                let Some(index) = self.index_of(*lease) else { return Ok(()) };
                let mut lease = sequence::changed(self.leases[index].clone(), *change, self.start);
                lease.progress = progress.map(sequence::progress_of);
                lease.reported = lease.tick.filter(|_| *reported);
                match client.extend(key, &lease).await?.reply {
                    ExtendReply::Kept { until, .. } | ExtendReply::Restored(until) => {
                        self.leases[index].until = until;
                    }
                    ExtendReply::Lost { .. } => {}
                }
            }
            Step::Release { lease, change, progress, end } => {
                let Some(index) = self.index_of(*lease) else { return Ok(()) };
                let mut lease = sequence::changed(self.leases[index].clone(), *change, self.start);
                lease.progress = progress.map(sequence::progress_of);
                client.release(key, &lease, &sequence::ending(self.start, end)).await?;
            }
            Step::Pause(paused) => drop(client.set_paused(key, *paused).await?),
            Step::Reset => drop(client.reset(key).await?),
            Step::Forget { quiet } => {
                drop(client.forget(key, Duration::from_millis(*quiet)).await?);
            }
            Step::Break { remember } => drop(client.break_lock(key, *remember).await?),
            Step::Cancel => drop(client.cancel(key).await?),
            Step::Request { id, by, ttl } => {
                let ttl = Duration::from_millis(*ttl);
                client.request(key, REQUESTS[*id], SERVERS[*by], ttl).await?;
            }
            Step::Copy(index) => {
                if let Some((key, swap)) = self.swaps.iter().rev().nth(*index) {
                    // The hook sees its answer.
                    client.store().swap(key, swap).await?;
                }
            }
            Step::LockVanishes if self.has_lock => {
                self.subject.outside().remove_lock(key).await;
                self.reference().lock = None;
            }
            Step::LockIsSet { to, lasts } if self.has_lock => {
                let token = match to {
                    LockOwner::Foreign => "foreign".into(),
                    LockOwner::HolderOf(lease) => match self.index_of(*lease) {
                        Some(index) => Arc::clone(&self.leases[index].token),
                        None => return Ok(()),
                    },
                };
                let now = client.ping().await?.at;
                let until = lasts.map(|lasts| {
                    let until = (now + Duration::from_millis(lasts)).as_micros();
                    Timestamp::from_micros(until / 1_000 * 1_000)
                });
                self.subject.outside().set_lock(key, &token, until).await;
                self.reference().lock = Some(SharedLock { token, until });
            }
            Step::Wipe if self.subject.can(Capability::Wipe) => {
                for (key, reference) in &mut self.references {
                    self.subject.wipe(key).await;
                    *reference = ReferenceKey::default();
                }
            }
            Step::LockVanishes | Step::LockIsSet { .. } | Step::Wipe => {}
            Step::Outlive => {
                let ends = self.leases.last().map_or(self.start, |lease| lease.until);
                let rest = ends.since(client.ping().await?.at);
                if rest <= self.short {
                    tokio::time::sleep(rest).await;
                }
            }
            Step::Sleep(millis) => tokio::time::sleep(Duration::from_millis(*millis)).await,
        }
        Ok(())
    }

    fn index_of(&self, newest_first: usize) -> Option<usize> {
        self.leases.len().checked_sub(newest_first + 1)
    }

    fn reference(&mut self) -> &mut ReferenceKey {
        self.references.entry(self.key.clone()).or_default()
    }

    /// Replays the step's swaps, then compares what the store shows of the keys that it may have changed.
    async fn compare(&mut self) -> Result<(), ReplayError> {
        let sent = std::mem::take(&mut *self.sent.0.lock().expect("no panic"));
        let has_lock = self.has_lock;
        let (mut changed, mut appended) = (vec![self.key.clone()], false);
        for (key, swap, reply) in sent {
            let reference = self.references.entry(key.clone()).or_default();
            match &reply {
                SwapReply::Swapped(swapped) => {
                    reference.approach(swapped.now, swap.expected.is_some(), swap.expected_lock.as_deref());
                    let replayed = reference.swap(has_lock, swapped.now, &swap);
                    if replayed != reply {
                        let difference = format!("{swap:?}\nstore:  {reply:?}\nrecord: {replayed:?}");
                        return Err(ReplayError::Different(difference));
                    }
                    appended |= swap.change.state.is_none() || !swap.change.records.is_empty();
                }
                SwapReply::Changed(look) => {
                    if !reference.refuses(has_lock, look, &swap) {
                        let difference = format!("{swap:?}\nstore:  {reply:?}\nrecord: it is applied");
                        return Err(ReplayError::Different(difference));
                    }
                    reference.compare(has_lock, look)?;
                }
            }
            if !changed.contains(&key) {
                changed.push(key.clone());
            }
            self.swaps.push((key, swap));
        }
        for key in changed {
            let look = self.client.store().look(&key).await?;
            self.references.entry(key).or_default().compare(has_lock, &look)?;
        }
        if appended { self.compare_records().await } else { Ok(()) }
    }

    async fn compare_records(&mut self) -> Result<(), ReplayError> {
        for (key, reference) in &mut self.references {
            let records = self.client.store().records(std::slice::from_ref(key), usize::MAX).await?.remove(0);
            let expected = reference.record.as_ref().map(|record| record.records.clone()).unwrap_or_default();
            let expired = reference.record.as_ref().is_some_and(|record| record.state.expires.is_some());
            if records != expected && !(expired && records == JobRecords::default()) {
                let difference = format!("records of {key}\nstore:  {records:?}\nrecord: {expected:?}");
                return Err(ReplayError::Different(difference));
            }
        }
        Ok(())
    }
}

impl ReferenceKey {
    /// What may happen at any moment has happened as the store's answer shows: an expired record is removed, a lock that is
    /// about to expire has expired.
    fn approach(&mut self, now: Timestamp, has_record: bool, token: Option<&str>) {
        if !has_record {
            self.record.take_if(|record| record.is_expired(now));
        }
        if let Some(lock) = &mut self.lock
            && let Some(until) = lock.until
            && until >= now - CLOSE
            && until <= now + CLOSE
        {
            if token == Some(&*lock.token) {
                lock.until = Some(until.max(now + Duration::from_micros(1)));
            } else {
                self.lock = None;
            }
        }
    }

    fn swap(&mut self, has_lock: bool, now: Timestamp, swap: &Swap) -> SwapReply {
        Record::swap(&mut self.record, has_lock.then_some(&mut self.lock), now, swap)
    }

    /// Whether a swap that the store refused, and then showed this, is refused by the record, too: at that instant, or just
    /// before it, when a lock or a record that has expired by now was still there. (The clock does not go back, so
    /// `not_before` is not why.)
    fn refuses(&self, has_lock: bool, shown: &Look, swap: &Swap) -> bool {
        let (mut then, mut now) = (self.clone(), self.clone());
        let unlimited = Change { not_before: None, ..swap.change.clone() };
        let earlier = Swap { change: unlimited, ..swap.clone() };
        now.approach(shown.now, shown.version.is_some(), shown.lock.as_ref().map(|lock| &*lock.token));
        [then.swap(has_lock, shown.now - CLOSE, &earlier), now.swap(has_lock, shown.now, swap)]
            .iter()
            .any(|reply| matches!(reply, SwapReply::Changed(_)))
    }

    fn compare(&mut self, has_lock: bool, shown: &Look) -> Result<(), ReplayError> {
        let token = shown.lock.as_ref().map(|lock| &*lock.token);
        self.approach(shown.now, shown.version.is_some(), token);
        let expected = Record::look(self.record.as_ref(), self.lock.as_ref(), shown.now);
        let same_lock = token == expected.lock.as_ref().map(|lock| &*lock.token);
        let shown_record = Look { lock: None, ..shown.clone() };
        let expected_record = Look { lock: None, ..expected.clone() };
        if shown_record == expected_record && (same_lock || !has_lock) {
            return Ok(());
        }
        Err(ReplayError::Different(format!("\nstore:  {shown:?}\nrecord: {expected:?}")))
    }
}
