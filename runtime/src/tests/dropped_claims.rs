//! What an unanswered claim may have won is given back, also if it wins late.

use super::*;
use crate::lease::PendingClaim;
use crate::store::{Change, Claim, ClaimPurpose, RunDetails, SwapReply};

const TTL: Duration = Duration::from_secs(30);

/// How long a swap may take: a claim's last instant is this long after its look.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Keeps the swaps that would win a lease, and lets them arrive when the test says so.
#[derive(Clone, Default)]
struct Delayed(Arc<Mutex<Vec<Swap>>>);

impl Hook for Delayed {
    fn before<'a>(&'a self, request: Request<'a>) -> HookFuture<'a> {
        let delayed = match request {
            Request::Swap(_, swap) if swap.change.fence == FenceChange::Next => {
                self.0.lock().unwrap().push(swap.clone());
                Err(ServerLink::error(StoreErrorKind::Unreachable, "on its way"))
            }
            _ => Ok(()),
        };
        Box::pin(std::future::ready(delayed))
    }
}

fn claim(what: ClaimPurpose) -> Claim {
    Claim {
        token: "token".into(),
        server: "server".into(),
        ttl: TTL,
        what,
        remember: REMEMBERED,
        details: RunDetails::default(),
    }
}

struct Late {
    link: Link,
    server: Arc<Server>,
    delayed: Delayed,
    pending: PendingClaim,
}

/// A claim of which so many swaps are on their way.
async fn late(what: ClaimPurpose, swaps: usize) -> Late {
    let clock = TestClock::new();
    let link = Link::new(clock.clone());
    let delayed = Delayed::default();
    let store = Arc::new(Intercept::new(Arc::new(link.store.clone()), delayed.clone()));
    let server = Arc::new(Server::new(ServerConfig { store, ..setup("server", &link, clock) }));
    let mut pending = PendingClaim::new(&server, "job", true, claim(what));
    for _ in 0..swaps {
        assert!(pending.ask().await.is_err(), "no answer");
    }
    Late { link, server, delayed, pending }
}

impl Late {
    /// Drops the claim, and lets time pass.
    async fn give_up_for(self, time: Duration) -> (Link, Vec<Swap>, Arc<Server>) {
        drop(self.pending);
        tokio::time::sleep(time).await;
        let swaps = std::mem::take(&mut *self.delayed.0.lock().unwrap());
        (self.link, swaps, self.server)
    }
}

/// Writes what a swap had decided in time: the clock was checked before a wait.
async fn commits(link: &Link, swap: &Swap) {
    let change = Change { not_after: None, ..swap.change.clone() };
    let reply = link.store.swap("job", &Swap { change, ..swap.clone() }).await.unwrap();
    assert!(matches!(reply, SwapReply::Swapped(_)), "{reply:?}");
    assert!(is_held(link).await);
}

async fn is_held(link: &Link) -> bool {
    let look = link.store.look("job").await.unwrap();
    look.state.holder(look.now).is_some()
}

#[tokio::test(start_paused = true)]
async fn claim_that_is_committed_just_after_its_last_instant_is_released() {
    for what in [ClaimPurpose::Now, ClaimPurpose::Lock] {
        let (link, swaps, server) = late(what, 1).await.give_up_for(TIMEOUT + TIMEOUT / 2).await;
        commits(&link, &swaps[0]).await;
        tokio::time::sleep(TIMEOUT).await;
        assert!(!is_held(&link).await, "a request timeout after its last instant it is released");
        assert!(server.tracked.is_empty(), "and not waited for any longer");
    }
}

#[tokio::test(start_paused = true)]
async fn claim_that_arrives_in_time_is_released_at_its_last_instant() {
    for what in [ClaimPurpose::Now, ClaimPurpose::Lock] {
        let (link, swaps, _server) = late(what, 1).await.give_up_for(TIMEOUT / 2).await;
        commits(&link, &swaps[0]).await;
        tokio::time::sleep(TIMEOUT / 2 + Duration::from_millis(10)).await;
        assert!(!is_held(&link).await);
    }
}

#[tokio::test(start_paused = true)]
async fn second_swap_of_a_lock_that_wins_after_the_first_was_released_is_released() {
    let late = late(ClaimPurpose::Lock, 2).await;
    let swaps = late.delayed.0.lock().unwrap().clone();
    assert!(swaps.iter().all(|swap| swap.expected.is_none()), "both expect no record");
    commits(&late.link, &swaps[0]).await;
    let (link, _, server) = late.give_up_for(Duration::from_millis(10)).await;
    assert!(!is_held(&link).await, "the first one was released at once");
    commits(&link, &swaps[1]).await;
    tokio::time::sleep(2 * TIMEOUT + Duration::from_millis(10)).await;
    assert!(!is_held(&link).await);
    assert!(server.tracked.is_empty());
}

#[tokio::test(start_paused = true)]
async fn dropped_claim_does_not_wait_after_its_only_swap_was_released() {
    let late = late(ClaimPurpose::Lock, 1).await;
    let swaps = late.delayed.0.lock().unwrap().clone();
    commits(&late.link, &swaps[0]).await;
    let (link, _, server) = late.give_up_for(Duration::from_millis(10)).await;
    assert!(!is_held(&link).await && server.tracked.is_empty());
}

#[tokio::test(start_paused = true)]
async fn dropped_claim_does_not_wait_once_another_claim_has_replaced_the_record() {
    let late = late(ClaimPurpose::Now, 0).await;
    let Late { link, server, delayed, mut pending } = late;
    link.store.edit("job", |state| state.expires = None);
    assert!(pending.ask().await.is_err() && pending.ask().await.is_err());
    link.store.edit("job", |_| ());
    assert_eq!(delayed.0.lock().unwrap().len(), 2);
    drop(pending);
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert!(server.tracked.is_empty(), "the version that they expect is gone");
}

#[tokio::test(start_paused = true)]
async fn ending_server_sends_one_last_release_and_does_not_wait_for_late_claims() {
    let late = late(ClaimPurpose::Lock, 1).await;
    let swaps = late.delayed.0.lock().unwrap().clone();
    let (link, _, server) = late.give_up_for(Duration::from_millis(10)).await;
    commits(&link, &swaps[0]).await;
    assert!(!server.tracked.is_empty(), "it waits for the last instant");
    server.cancel_runs.raise();
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert!(!is_held(&link).await && server.tracked.is_empty());
}

/// Drops a claim that has won without an answer, while its store is unreachable.
async fn dropped_during_an_outage() -> (Link, Arc<Server>) {
    let clock = TestClock::new();
    let link = Link::new(clock.clone());
    let server = server("server", &link, clock);
    let mut pending = PendingClaim::new(&server, "job", true, claim(ClaimPurpose::Now));
    link.swap_replies_lost.store(true, Ordering::SeqCst);
    assert!(pending.ask().await.is_err(), "no answer");
    link.swap_replies_lost.store(false, Ordering::SeqCst);
    link.cut.store(true, Ordering::SeqCst);
    drop(pending);
    seconds(5).await;
    assert!(is_held(&link).await && !server.tracked.is_empty());
    (link, server)
}

#[tokio::test(start_paused = true)]
async fn dropped_claim_is_released_as_soon_as_the_store_is_reachable_again() {
    let (link, server) = dropped_during_an_outage().await;
    link.cut.store(false, Ordering::SeqCst);
    seconds(2).await;
    assert!(!is_held(&link).await && server.tracked.is_empty());
}

#[tokio::test(start_paused = true)]
async fn server_that_shuts_down_leaves_a_dropped_claim_in_an_unreachable_store() {
    let (_link, server) = dropped_during_an_outage().await;
    server.shut_down();
    seconds(2).await;
    assert!(server.tracked.is_empty(), "its lease expires by itself");
}

#[tokio::test(start_paused = true)]
async fn dropped_claim_is_left_to_expire_after_two_ttls_without_an_answer() {
    let (_link, server) = dropped_during_an_outage().await;
    // Of 60 s, 5 have passed.
    tokio::time::sleep(Duration::from_millis(54_999)).await;
    assert!(!server.tracked.is_empty());
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert!(server.tracked.is_empty());
}
