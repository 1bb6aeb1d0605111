//! Not public API. Short names for what servers do to one key of a store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::Timestamp;
use crate::events::Taken;
use crate::fleet::{Forgotten, HeldLock, Holder};
use crate::history::{CurrentRun, History, RunOutcome, RunRecord};
use crate::schedule::{Missed, Overlap};
use crate::store::{
    Claim, ClaimDecision, ClaimPurpose, ClaimReply, Ending, ExtendReply, Lease, Look, REMEMBERED,
    ReleaseReply, RunDetails, RunRequest, Store, StoreErrorKind, Subscription, TickClaim, WonClaim,
};

use super::{Capability, Client, Subject, Timestamped};

pub const SHORT: Duration = Duration::from_millis(150);
pub const LONG: Duration = Duration::from_secs(30);
/// Enough for two instants of the store's clock to differ.
pub const MOMENT: Duration = Duration::from_millis(3);
pub const DAY: Duration = Duration::from_secs(86_400);
pub const SCHEDULE: &str = "0 * * * * UTC";

/// One key of a store, and what is done to it.
#[derive(Clone)]
pub struct Bench {
    pub store: Arc<dyn Store>,
    pub client: Client,
    pub key: String,
    subject: Subject,
}

impl Bench {
    pub fn of(subject: &Subject) -> Self {
        Self::with_key(subject, "import-products")
    }

    pub fn with_key(subject: &Subject, key: &str) -> Self {
        Self {
            store: Arc::clone(&subject.store),
            client: Client::of(Arc::clone(&subject.store)),
            key: key.to_owned(),
            subject: subject.clone(),
        }
    }

    /// Another key of the same store.
    #[must_use]
    pub fn on(&self, key: &str) -> Self {
        Self::with_key(&self.subject, key)
    }

    /// The same key in a namespace.
    pub fn in_namespace(subject: &Subject, namespace: &str) -> Self {
        let store = subject.in_namespace(namespace);
        Self { client: Client::of(Arc::clone(&store)), store, ..Self::of(subject) }
    }

    /// The store's time.
    pub async fn now(&self) -> Timestamp {
        self.client.ping().await.expect("ping").at
    }

    /// A tick that became due this long ago.
    pub async fn tick_ago(&self, ago: Duration) -> Timestamp {
        self.now().await - ago
    }

    /// A tick of this very instant, which is over when this returns.
    pub async fn tick_now(&self) -> Timestamp {
        tokio::time::sleep(MOMENT).await;
        let tick = self.now().await;
        tokio::time::sleep(MOMENT).await;
        tick
    }

    /// What was won and is not on all replicas yet is asked for again, as every server does.
    pub async fn answer(&self, claim: &Claim) -> Timestamped<ClaimReply> {
        loop {
            match self.client.claim(&self.key, claim).await {
                Err(error) if error.kind() == StoreErrorKind::NotReplicated => {}
                answer => return answer.expect("claim"),
            }
        }
    }

    pub async fn verdict(&self, claim: &Claim) -> ClaimReply {
        self.answer(claim).await.reply
    }

    pub async fn claim(&self, claim: &Claim) -> ClaimDecision {
        self.verdict(claim).await.decision
    }

    pub async fn won(&self, claim: &Claim) -> WonClaim {
        match self.claim(claim).await {
            ClaimDecision::Won(won) => won,
            reply => panic!("the claim should have won, but: {reply:?}"),
        }
    }

    /// Claims, and must win.
    pub async fn win(&self, claim: &Claim) -> Lease {
        self.won(claim).await.lease
    }

    /// Registers the job with a claim that decides no tick, and returns when that was.
    pub async fn register(&self) -> Timestamp {
        self.register_as(Missed::Skip).await
    }

    /// The same with this policy for missed ticks.
    pub async fn register_as(&self, missed: Missed) -> Timestamp {
        let long_ago = self.tick_ago(DAY / 2).await;
        let answer = self.answer(&claim_with("a", LONG, TickClaim { missed, ..ask(long_ago) })).await;
        assert!(matches!(answer.reply.decision, ClaimDecision::Late(_)), "{answer:?}");
        answer.at
    }

    pub async fn extend(&self, lease: &Lease) -> ExtendReply {
        self.client.extend(&self.key, lease).await.expect("extend").reply
    }

    /// Extends, and must keep the lease.
    pub async fn keep(&self, lease: &mut Lease) {
        match self.extend(lease).await {
            ExtendReply::Kept { until, .. } => lease.until = until,
            reply => panic!("the lease should have been kept, but: {reply:?}"),
        }
    }

    /// Makes a lease end soon: whatever was to happen before that has happened, however slow the machine.
    pub async fn shorten(&self, lease: &mut Lease) {
        lease.ttl = SHORT;
        self.keep(lease).await;
    }

    /// Extends, and must have lost the lease.
    pub async fn lose(&self, lease: &Lease) {
        assert_eq!(self.extend(lease).await, ExtendReply::Lost { broken_by: None });
    }

    pub async fn release(&self, lease: &Lease, outcome: RunOutcome) -> ReleaseReply {
        self.release_with(lease, &ending(outcome)).await
    }

    pub async fn release_with(&self, lease: &Lease, end: &Ending) -> ReleaseReply {
        self.client.release(&self.key, lease, end).await.expect("release").reply
    }

    /// Wins and finishes a tick.
    pub async fn finish(&self, claim: &Claim) -> Lease {
        let lease = self.win(claim).await;
        assert_eq!(self.release(&lease, RunOutcome::Succeeded).await, ReleaseReply::Released);
        lease
    }

    pub async fn pause(&self, paused: bool) {
        self.client.set_paused(&self.key, paused).await.expect("pause");
    }

    pub async fn reset(&self) {
        self.client.reset(&self.key).await.expect("reset");
    }

    pub async fn forget(&self, quiet: Duration) -> Forgotten {
        self.client.forget(&self.key, quiet).await.expect("forget").reply
    }

    /// Another server requests a manual run.
    pub async fn request(&self, id: &str, ttl: Duration) -> RunRequest {
        self.client.request(&self.key, id, "asker", ttl).await.expect("request").reply
    }

    pub async fn break_lock(&self) -> Vec<HeldLock> {
        self.client.break_lock(&self.key, REMEMBERED).await.expect("break_lock").reply
    }

    pub async fn locks(&self) -> Vec<HeldLock> {
        self.client.locks().await.expect("locks").reply
    }

    pub async fn cancel(&self) -> Option<CurrentRun> {
        self.client.cancel(&self.key).await.expect("cancel").reply
    }

    pub async fn look(&self) -> Look {
        self.store.look(&self.key).await.expect("look")
    }

    /// `None` from a store without notifications.
    pub async fn listen(&self) -> Option<Subscription> {
        self.store.listen(&self.key).await.expect("listen")
    }

    pub async fn history(&self) -> History {
        self.client.history(&self.key).await.expect("history").reply
    }

    pub async fn newest_run(&self) -> RunRecord {
        let history = self.history().await;
        history.runs.first().cloned().unwrap_or_else(|| panic!("a run should be on record: {history:?}"))
    }

    /// The lock as other programs see it has this token. On a store without one, nothing is checked.
    pub async fn lock_is(&self, token: Option<&str>) {
        if self.subject.can(Capability::Lock) {
            let lock = self.subject.outside().lock(&self.key).await;
            assert_eq!(lock.as_deref(), token, "the lock as other programs see it");
        }
    }

    /// The lock vanishes.
    pub async fn remove_lock(&self) {
        self.subject.outside().remove_lock(&self.key).await;
    }

    /// The store loses everything about the key and its slots, which takes a moment.
    pub async fn wipe(&self) {
        self.subject.wipe(&self.key).await;
        self.subject.wipe(&format!("{}#slots", self.key)).await;
        tokio::time::sleep(MOMENT).await;
    }

    /// Another program takes the lock.
    pub async fn foreign_lock(&self, lasts: Duration) {
        let until = (self.now().await + lasts).as_micros() / 1_000 * 1_000;
        self.set_lock("foreign", Some(Timestamp::from_micros(until))).await;
    }

    /// Another program takes the lock without an expiry.
    pub async fn foreign_lock_without_expiry(&self) {
        self.set_lock("foreign", None).await;
    }

    /// Another program sets the lock, whichever token it has.
    pub async fn set_lock(&self, token: &str, until: Option<Timestamp>) {
        self.subject.outside().set_lock(&self.key, token, until).await;
    }

    /// Waits until the lease is over by the store's clock.
    pub async fn outlive(&self, lease: &Lease) {
        let rest = lease.until.since(self.now().await);
        tokio::time::sleep(rest + MOMENT).await;
        assert!(self.now().await > lease.until);
    }
}

/// A claim of a tick with a token of its own, by a server that has been there for long: 30 s of lease and
/// grace, skipped if held or missed, no takeovers.
pub fn claim(server: &str, tick: Timestamp) -> Claim {
    claim_with(server, LONG, ask(tick))
}

pub fn ask(tick: Timestamp) -> TickClaim {
    TickClaim {
        tick,
        previous: None,
        delay: Duration::ZERO,
        grace: LONG,
        only_takes_over: false,
        overlap: Overlap::Skip,
        takeovers: 0,
        missed: Missed::Skip,
        schedule: SCHEDULE.into(),
        known_for: DAY,
    }
}

pub fn claim_with(server: &str, ttl: Duration, ask: TickClaim) -> Claim {
    claim_what(server, ttl, ClaimPurpose::Tick(ask))
}

/// A manual claim.
pub fn claim_now(server: &str, ttl: Duration) -> Claim {
    claim_what(server, ttl, ClaimPurpose::Now)
}

/// A claim of a run that another server asked for.
pub fn claim_requested(server: &str, id: &str) -> Claim {
    claim_what(server, LONG, ClaimPurpose::Requested(id.into()))
}

/// A claim for whatever there is.
pub fn claim_what(server: &str, ttl: Duration, what: ClaimPurpose) -> Claim {
    Claim {
        token: token(server),
        server: server.into(),
        ttl,
        what,
        remember: REMEMBERED,
        details: RunDetails::default(),
    }
}

fn token(server: &str) -> Arc<str> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("{server}-{}", COUNT.fetch_add(1, Ordering::Relaxed)).into()
}

pub fn ending(outcome: RunOutcome) -> Ending {
    Ending::of(outcome, REMEMBERED)
}

pub fn started(server: &str, since: Timestamp, finished: bool) -> ClaimDecision {
    ClaimDecision::Taken(Taken::Started { server: server.to_owned(), since, finished })
}

/// The holder that a loser sees.
pub fn holder(reply: ClaimDecision) -> Holder {
    match reply {
        ClaimDecision::Held(holder) => holder,
        reply => panic!("the key should be held, but: {reply:?}"),
    }
}
