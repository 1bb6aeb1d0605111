//! A real store, and a line to the parent for whatever it says about leases.

use std::time::Duration;

use jobs::Timestamp;
use jobs::store::{
    Announcement, Claim, ClaimReply, Ending, ExtendReply, ForgetReply, HeldLock, History, Lease,
    ListenFuture, ReleaseReply, RequestHint, Requested, RunRequest, ServerInfo, Store, StoreFuture, Verdict,
};

use crate::support::worker;

/// Tells, each with times in microseconds of the machine's clock, which is the store's, too:
///
/// - `won token fence since until sent answered`
/// - `asked sent answered`, if it was not won
/// - `kept token until`
/// - `letting-go token sent`, and `let-go token at` when the store has confirmed it
pub struct Witness {
    pub store: Box<dyn Store>,
    pub tells: bool,
}

impl Witness {
    fn tell(&self, line: &str) {
        if self.tells {
            worker::tell(line);
        }
    }
}

pub fn now() -> i64 {
    Timestamp::now().as_micros()
}

impl Store for Witness {
    fn location(&self) -> String {
        self.store.location()
    }
    fn ping(&self) -> StoreFuture<'_, ()> {
        self.store.ping()
    }
    fn claim<'a>(&'a self, key: &'a str, claim: &'a Claim) -> StoreFuture<'a, Verdict> {
        Box::pin(async move {
            let sent = now();
            let answer = self.store.claim(key, claim).await?;
            let answered = now();
            match &answer.reply.decision {
                ClaimReply::Won(won) => {
                    let (since, until) = (won.since.as_micros(), won.until.as_micros());
                    let (token, fence) = (&claim.token, won.fence);
                    self.tell(&format!("won {token} {fence} {since} {until} {sent} {answered}"));
                }
                _ => self.tell(&format!("asked {sent} {answered}")),
            }
            Ok(answer)
        })
    }
    fn extend<'a>(&'a self, key: &'a str, lease: &'a Lease) -> StoreFuture<'a, ExtendReply> {
        Box::pin(async move {
            let answer = self.store.extend(key, lease).await?;
            if let ExtendReply::Kept(until) | ExtendReply::Restored(until) = answer.reply {
                self.tell(&format!("kept {} {}", lease.token, until.as_micros()));
            }
            Ok(answer)
        })
    }
    fn release<'a>(
        &'a self,
        key: &'a str,
        lease: &'a Lease,
        end: &'a Ending,
    ) -> StoreFuture<'a, ReleaseReply> {
        Box::pin(async move {
            self.tell(&format!("letting-go {} {}", lease.token, now()));
            let answer = self.store.release(key, lease, end).await?;
            if answer.reply == ReleaseReply::Released {
                self.tell(&format!("let-go {} {}", lease.token, answer.at.as_micros()));
            }
            Ok(answer)
        })
    }
    fn break_lock<'a>(&'a self, key: &'a str, remember: usize) -> StoreFuture<'a, Vec<HeldLock>> {
        self.store.break_lock(key, remember)
    }
    fn locks(&self) -> StoreFuture<'_, Vec<HeldLock>> {
        self.store.locks()
    }
    fn listen<'a>(&'a self, key: &'a str) -> ListenFuture<'a> {
        self.store.listen(key)
    }
    fn set_paused<'a>(&'a self, key: &'a str, paused: bool) -> StoreFuture<'a, ()> {
        self.store.set_paused(key, paused)
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
    fn announce<'a>(&'a self, announcement: &'a Announcement) -> StoreFuture<'a, Vec<RequestHint>> {
        self.store.announce(announcement)
    }
    fn leave<'a>(&'a self, server: &'a str) -> StoreFuture<'a, ()> {
        self.store.leave(server)
    }
    fn servers(&self) -> StoreFuture<'_, Vec<ServerInfo>> {
        self.store.servers()
    }
}
