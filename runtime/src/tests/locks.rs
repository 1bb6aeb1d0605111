//! The number of requests for a lock, locks whose ttl was shortened, and releases without an answer.

use super::*;
use crate::locks::{Lock, LockError, WeakServer};
use crate::store::{JobRecords, Look, Note, Notes, Page, StoreFuture, Subscription, SwapReply};

fn lock_on(server: &Arc<Server>) -> Lock {
    Lock::new(Some(WeakServer::of(server)), "k").ttl("30s")
}

fn asked(link: &Link) -> usize {
    std::mem::take(&mut *link.claims.lock().unwrap()).len()
}

#[tokio::test(start_paused = true)]
async fn free_lock_is_acquired_with_one_request() {
    let clock = TestClock::new();
    let link = Link::new(clock.clone());
    let server = server("one", &link, clock);
    let guard = lock_on(&server).acquire().await.unwrap();
    assert_eq!(asked(&link), 1);
    seconds(9).await;
    assert_eq!(link.extensions.load(Ordering::SeqCst), 0);
    seconds(2).await;
    assert_eq!(link.extensions.load(Ordering::SeqCst), 1, "a third of the ttl later");
    guard.release().await.unwrap();
    assert_eq!(asked(&link), 0);
}

#[tokio::test(start_paused = true)]
async fn ten_waiters_in_each_of_ten_processes_send_about_one_claim_per_process_and_handover() {
    let clock = TestClock::new();
    let link = Link::new(clock.clone());
    let servers: Vec<_> = (0..10).map(|n| server(&format!("s{n}"), &link, clock.clone())).collect();
    let held = lock_on(&servers[0]).acquire().await.unwrap();
    let (acquired, mut guards) = tokio::sync::mpsc::unbounded_channel();
    for server in servers.iter().cycle().take(100) {
        let (server, acquired) = (server.clone(), acquired.clone());
        tokio::spawn(async move { acquired.send(lock_on(&server).acquire().await.unwrap()).ok() });
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    let at_first = asked(&link);
    assert!(at_first <= 21, "one each, one more each after listening: {at_first}");
    assert!(guards.try_recv().is_err(), "it is held");
    let mut holding = held;
    let mut longest = 0;
    for _ in 0..100 {
        let begun = Instant::now();
        holding.release().await.unwrap();
        holding = guards.recv().await.unwrap();
        assert!(
            begun.elapsed() < Duration::from_millis(50),
            "notified, not found by polling: {:?}",
            begun.elapsed()
        );
        // All are notified, one wins, and the next waiter of that process claims once.
        tokio::time::sleep(Duration::from_millis(10)).await;
        longest = longest.max(asked(&link));
    }
    assert!(longest <= 14, "{longest} questions for one handover");
}

#[tokio::test(start_paused = true)]
async fn subscribed_waiter_also_polls_every_one_to_two_seconds() {
    let clock = TestClock::new();
    let link = Link::new(clock.clone());
    let (one, other) = (server("one", &link, clock.clone()), server("other", &link, clock));
    let _held = lock_on(&one).acquire().await.unwrap();
    let waiting = tokio::spawn(lock_on(&other).acquire());
    seconds(1).await;
    asked(&link);
    seconds(100).await;
    let count = asked(&link);
    assert!((50..=101).contains(&count), "{count} questions in 100 s");
    assert!(!waiting.is_finished());
}

#[tokio::test(start_paused = true)]
async fn every_request_of_an_acquire_has_the_same_token() {
    let clock = TestClock::new();
    let link = Link::new(clock.clone());
    let server = server("one", &link, clock);
    link.swaps_cut.store(true, Ordering::SeqCst);
    let acquiring = tokio::spawn(lock_on(&server).acquire());
    seconds(3).await;
    link.replies_lost.store(true, Ordering::SeqCst);
    link.swaps_cut.store(false, Ordering::SeqCst);
    seconds(5).await;
    link.replies_lost.store(false, Ordering::SeqCst);
    let guard = acquiring.await.unwrap().expect("an unanswered request had won");
    let tokens = link.tokens();
    assert!(tokens.len() > 3 && tokens.iter().all(|token| *token == tokens[0]), "{tokens:?}");
    assert!(!guard.is_lost());
}

/// A lock whose ttl was shortened to 3 s, without its holder knowing: the answer was lost.
async fn shortened_unnoticed(link: &Link, clock: &Arc<TestClock>) -> crate::locks::Guard {
    let one = server("one", link, clock.clone());
    let guard = lock_on(&one).acquire().await.unwrap();
    link.swap_replies_lost.store(true, Ordering::SeqCst);
    assert!(guard.extend("3s").await.is_err(), "applied, and not answered");
    link.swap_replies_lost.store(false, Ordering::SeqCst);
    guard
}

/// An extension that shortens a lock is applied, and its answer is lost. Then the machine is suspended for
/// longer than the new ttl and for less than the old one; meanwhile another server has acquired and released
/// the lock.
#[tokio::test(start_paused = true)]
async fn lock_whose_shorter_ttl_was_applied_without_an_answer_is_not_restored_after_its_successor() {
    let (clock, store_clock) = (TestClock::new(), TestClock::new());
    let link = Link::new(store_clock.clone());
    let first = shortened_unnoticed(&link, &clock).await;

    clock.step_secs(10);
    store_clock.step_secs(10);
    let other = server("other", &link, store_clock);
    let second = lock_on(&other).acquire().await.expect("the shorter lease is over");
    assert!(second.fence() > first.fence());
    second.release().await.unwrap();

    seconds(2).await;
    assert!(first.is_lost(), "its successor {first:?} came and went");
}

/// The shortened lock of the test above, broken by an operator.
#[tokio::test(start_paused = true)]
async fn broken_lock_whose_shorter_ttl_was_applied_without_an_answer_is_not_restored() {
    let (clock, store_clock) = (TestClock::new(), TestClock::new());
    let link = Link::new(store_clock.clone());
    let first = shortened_unnoticed(&link, &clock).await;

    let other = server("other", &link, store_clock.clone());
    let broken = other.requests(Duration::from_secs(1)).break_lock("k", &other.id, 10).await.unwrap();
    assert_eq!(broken.len(), 1);
    clock.step_secs(10);
    store_clock.step_secs(10);
    lock_on(&other).acquire().await.expect("it was broken").release().await.unwrap();

    seconds(2).await;
    assert!(first.is_lost(), "an operator broke {first:?}");
}

/// A store that accepts one subscription, and refuses to renew it.
struct SubscribesOnce {
    store: Arc<dyn Store>,
    subscriptions: std::sync::atomic::AtomicUsize,
}

impl Store for SubscribesOnce {
    fn location(&self) -> String {
        self.store.location()
    }

    fn look<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Look> {
        self.store.look(key)
    }

    fn swap<'a>(&'a self, key: &'a str, swap: &'a Swap) -> StoreFuture<'a, SwapReply> {
        self.store.swap(key, swap)
    }

    fn list<'a>(&'a self, page: Option<&'a str>) -> StoreFuture<'a, Page> {
        self.store.list(page)
    }

    fn records<'a>(&'a self, keys: &'a [String], newest: usize) -> StoreFuture<'a, Vec<JobRecords>> {
        self.store.records(keys, newest)
    }

    fn put_note<'a>(&'a self, topic: Topic, note: &'a Note, ttl: Duration) -> StoreFuture<'a, Timestamp> {
        self.store.put_note(topic, note, ttl)
    }

    fn notes(&self, topic: Topic) -> StoreFuture<'_, Notes> {
        self.store.notes(topic)
    }

    fn listen<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<Subscription>> {
        if self.subscriptions.fetch_add(1, Ordering::SeqCst) == 0 {
            return self.store.listen(key);
        }
        Box::pin(async {
            tokio::time::sleep(Duration::from_millis(1)).await; // a paused clock needs some time to pass
            Err(StoreError::new(StoreErrorKind::Refused, "listen", "memory", "no more subscriptions"))
        })
    }
}

#[tokio::test(start_paused = true)]
async fn waiter_whose_subscription_cannot_be_renewed_keeps_its_pace() {
    let clock = TestClock::new();
    let link = Link::new(clock.clone());
    let one = server("one", &link, clock.clone());
    let store = SubscribesOnce { store: link.seen_by("other"), subscriptions: 0.into() };
    let other =
        Arc::new(Server::new(ServerConfig { store: Arc::new(store), ..setup("other", &link, clock) }));
    let _held = lock_on(&one).acquire().await.unwrap();
    let waiting = tokio::spawn(lock_on(&other).acquire());
    seconds(1).await;
    asked(&link);
    seconds(100).await;
    let count = asked(&link);
    assert!((50..=101).contains(&count), "{count} requests in 100 s");
    assert!(!waiting.is_finished());
}

#[tokio::test(start_paused = true)]
async fn release_whose_first_answer_was_lost_is_confirmed_by_the_second() {
    let clock = TestClock::new();
    let link = Link::new(clock.clone());
    let guard = lock_on(&server("one", &link, clock)).acquire().await.unwrap();
    link.swap_replies_lost.store(true, Ordering::SeqCst);
    let releasing = tokio::spawn(guard.release());
    tokio::time::sleep(Duration::from_millis(10)).await;
    link.swap_replies_lost.store(false, Ordering::SeqCst);
    assert!(releasing.await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn release_of_a_lock_that_was_broken_reports_it_as_lost() {
    let clock = TestClock::new();
    let link = Link::new(clock.clone());
    let server = server("one", &link, clock);
    let guard = lock_on(&server).acquire().await.unwrap();
    server.requests(Duration::from_secs(1)).break_lock("k", &server.id, 10).await.unwrap();
    let released = guard.release().await;
    assert!(matches!(released, Err(LockError::Lost { .. })), "{released:?}");
}

#[tokio::test(start_paused = true)]
async fn release_is_given_up_after_a_ttl_without_an_answer() {
    let clock = TestClock::new();
    let link = Link::new(clock.clone());
    let guard = lock_on(&server("one", &link, clock)).acquire().await.unwrap();
    link.cut.store(true, Ordering::SeqCst);
    let begun = Instant::now();
    let released = guard.release().await;
    assert!(matches!(released, Err(LockError::Store { .. })), "{released:?}");
    assert!((30..32).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn failed_extension_is_retried_at_least_every_twentieth_of_the_ttl() {
    let clock = TestClock::new();
    let link = Link::new(clock.clone());
    let server = server("one", &link, clock);
    let guard = lock_on(&server).ttl("6s").acquire().await.unwrap();
    link.swaps_cut.store(true, Ordering::SeqCst);
    guard.lost().await;
    // From 2 s to 5.4 s, every 0.3 s.
    let retries = link.extensions.load(Ordering::SeqCst);
    assert!((12..=18).contains(&retries), "{retries} extensions");
}

#[tokio::test(start_paused = true)]
async fn lock_that_was_won_again_with_little_left_is_extended_in_time() {
    let clock = TestClock::new();
    let link = Link::new(clock.clone());
    let server = server("one", &link, clock);
    link.swap_replies_lost.store(true, Ordering::SeqCst);
    let acquiring = tokio::spawn(lock_on(&server).acquire());
    seconds(21).await;
    link.swap_replies_lost.store(false, Ordering::SeqCst);
    let guard = acquiring.await.unwrap().expect("the first request had won");
    seconds(20).await;
    assert!(!guard.is_lost());
}

#[tokio::test(start_paused = true)]
async fn lock_whose_new_ttl_did_not_arrive_is_restored_in_a_store_that_lost_it() {
    let clock = TestClock::new();
    let link = Link::new(clock.clone());
    let guard = lock_on(&server("one", &link, clock)).acquire().await.unwrap();
    link.cut.store(true, Ordering::SeqCst);
    assert!(guard.extend("20s").await.is_err(), "it did not arrive");
    link.store.wipe("k");
    link.cut.store(false, Ordering::SeqCst);
    seconds(30).await;
    assert!(!guard.is_lost());
}
