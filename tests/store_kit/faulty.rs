//! Stores that are wrong on purpose, each in one way: a memory store, and somebody who interferes.

use std::sync::Arc;
use std::time::Duration;

use jobs::Timestamp;
use jobs::clock::SystemClock;
use jobs::store::memory::MemoryStore;
use jobs::store::model::{self, State};
use jobs::store::{
    Announcement, Claim, ClaimReply, Ending, ExtendReply, ForgetReply, HeldLock, History, Kind, Lease,
    ReleaseReply, RequestHint, Requested, RunRequest, ServerInfo, Stamped, Store, StoreFuture, Verdict, What,
};
use jobs::testing::store::Subject;

use super::support::subject::MemoryHand;

/// What is wrong with a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Nothing,
    ForgetsTheMark,
    WinsTwice,
    ReadsThenWrites,
    StartsEarly,
    ReusesFences,
    ReplaysWithAFullTtl,
    IgnoresAStranger,
    ForgetsThePause,
    ExtendsAnExpiredLease,
    HealsNothing,
    ReleasesWithAStaleToken,
    LosesTheRecord,
    KeepsSilentServers,
    SharesNamespaces,
    /// No promise is about this; only random operations find it.
    ExtendsUnderAnOlderFence,
}

#[derive(Clone)]
struct Faulty {
    store: MemoryStore,
    fault: Fault,
}

/// A faulty store with every hand there is.
pub fn subject(fault: Fault) -> Subject {
    let store = MemoryStore::new(Arc::new(SystemClock));
    let faulty = Faulty { store: store.clone(), fault };
    Subject::new(faulty.clone()).tampered_by(MemoryHand(store)).namespaced_by(move |name| match fault {
        Fault::SharesNamespaces => faulty.clone(),
        _ => Faulty { store: faulty.store.clone().with_namespace(name), fault },
    })
}

impl Faulty {
    fn interfere<T>(&self, key: &str, interfere: impl FnOnce(&mut State) -> T) -> T {
        self.store.tamper(key, interfere)
    }

    fn before_a_claim(&self, key: &str, claim: &Claim) {
        let now = Timestamp::now();
        self.interfere(key, |state| {
            let token = state.claimant.as_ref().map(|claimant| claimant.token.clone());
            match (self.fault, &mut state.claimant) {
                (Fault::IgnoresAStranger, _) => state.lock = None,
                (Fault::WinsTwice, Some(claimant)) if claimant.token != claim.token => {
                    claimant.released = true;
                    state.lock.take_if(|lock| Some(&lock.token) == token.as_ref());
                }
                (Fault::ReplaysWithAFullTtl, Some(claimant))
                    if claimant.token == claim.token && claimant.until > now =>
                {
                    claimant.until = now.plus(claim.ttl);
                }
                _ => {}
            }
        });
    }

    fn before_an_extension(&self, key: &str, lease: &Lease) -> Lease {
        let mut lease = lease.clone();
        self.interfere(key, |state| match (self.fault, &mut state.claimant) {
            (Fault::ExtendsAnExpiredLease, Some(claimant)) if claimant.token == lease.token => {
                claimant.until = claimant.until.max(Timestamp::now().plus(lease.ttl));
            }
            (Fault::ExtendsUnderAnOlderFence, Some(claimant))
                if claimant.token == lease.token && !matches!(lease.kind, Kind::Slot { .. }) =>
            {
                lease.fence = lease.fence.max(state.fence);
            }
            (Fault::HealsNothing, _) => lease.fence = lease.fence.min(state.fence),
            _ => {}
        });
        lease
    }

    fn before_a_release(&self, key: &str) {
        self.interfere(key, |state| {
            if let (Fault::ReleasesWithAStaleToken, Some(claimant)) = (self.fault, &mut state.claimant) {
                (claimant.released, state.lock) = (true, None);
            }
        });
    }

    fn after_a_release(&self, key: &str) {
        self.interfere(key, |state| match self.fault {
            Fault::ForgetsTheMark => state.mark = None,
            Fault::LosesTheRecord => state.runs.clear(),
            _ => {}
        });
    }
}

impl Store for Faulty {
    fn location(&self) -> String {
        format!("{:?}", self.fault)
    }

    fn ping(&self) -> StoreFuture<'_, ()> {
        self.store.ping()
    }

    fn claim<'a>(&'a self, key: &'a str, claim: &'a Claim) -> StoreFuture<'a, Verdict> {
        Box::pin(async move {
            if self.fault == Fault::ReadsThenWrites {
                let (mut state, at) = (self.interfere(key, |state| state.clone()), Timestamp::now());
                tokio::task::yield_now().await;
                let reply = model::claim(&mut state, at, claim);
                self.interfere(key, |kept| *kept = state);
                return Ok(Stamped { at, reply });
            }
            let mut claim = claim.clone();
            if let (Fault::StartsEarly, What::Tick(ask)) = (self.fault, &claim.what)
                && ask.tick > Timestamp::now()
            {
                claim.what = What::Now;
            }
            self.before_a_claim(key, &claim);
            let mut answer = self.store.claim(key, &claim).await?;
            if let (Fault::ReusesFences, ClaimReply::Won(won)) = (self.fault, &mut answer.reply.decision) {
                won.fence = 7;
                self.interfere(key, |state| state.fence = 7);
            }
            Ok(answer)
        })
    }

    fn extend<'a>(&'a self, key: &'a str, lease: &'a Lease) -> StoreFuture<'a, ExtendReply> {
        Box::pin(async move {
            let lease = self.before_an_extension(key, lease);
            self.store.extend(key, &lease).await
        })
    }

    fn release<'a>(
        &'a self,
        key: &'a str,
        lease: &'a Lease,
        end: &'a Ending,
    ) -> StoreFuture<'a, ReleaseReply> {
        Box::pin(async move {
            self.before_a_release(key);
            let answer = self.store.release(key, lease, end).await;
            self.after_a_release(key);
            answer
        })
    }

    fn set_paused<'a>(&'a self, key: &'a str, paused: bool) -> StoreFuture<'a, ()> {
        self.store.set_paused(key, paused && self.fault != Fault::ForgetsThePause)
    }

    fn reset<'a>(&'a self, key: &'a str) -> StoreFuture<'a, ()> {
        self.store.reset(key)
    }

    fn forget<'a>(&'a self, key: &'a str, quiet: Duration) -> StoreFuture<'a, ForgetReply> {
        self.store.forget(key, quiet)
    }

    fn request<'a>(&'a self, key: &'a str, request: &'a RunRequest) -> StoreFuture<'a, Requested> {
        self.store.request(key, request)
    }

    fn history<'a>(&'a self, key: &'a str) -> StoreFuture<'a, History> {
        self.store.history(key)
    }

    fn break_lock<'a>(&'a self, key: &'a str, remember: usize) -> StoreFuture<'a, Vec<HeldLock>> {
        self.store.break_lock(key, remember)
    }

    fn locks(&self) -> StoreFuture<'_, Vec<HeldLock>> {
        self.store.locks()
    }

    fn announce<'a>(&'a self, announcement: &'a Announcement) -> StoreFuture<'a, Vec<RequestHint>> {
        Box::pin(async move {
            let mut announcement = announcement.clone();
            if self.fault == Fault::KeepsSilentServers {
                announcement.ttl = Duration::from_secs(86_400);
            }
            self.store.announce(&announcement).await
        })
    }

    fn leave<'a>(&'a self, server: &'a str) -> StoreFuture<'a, ()> {
        self.store.leave(server)
    }

    fn servers(&self) -> StoreFuture<'_, Vec<ServerInfo>> {
        self.store.servers()
    }
}
