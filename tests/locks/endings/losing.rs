//! A guard that can no longer prove its lock reports the loss before another server can acquire it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jobs::events::EventKind;
use jobs::history::History;
use jobs::locks::LockError;
use jobs::testing::Fleet;
use tokio::time::{Instant, timeout};

use crate::kit::{fleet, millis, secs};

/// The remaining time in which no other server can acquire the lock.
async fn left_on_the_store(fleet: &Fleet, asker: usize) -> Duration {
    let locks = fleet.server(asker).locks().await.unwrap();
    locks.iter().find(|held| held.key == "k").and_then(|held| held.holder.remaining).unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn guard_that_is_cut_off_reports_the_loss_before_its_lease_ends() {
    let fleet = fleet(2).await;
    let mut events = fleet.server(0).events();
    let guard = fleet.server(0).lock("k").ttl("10s").acquire().await.unwrap();
    fleet.run_for(secs(20)).await;
    fleet.server(0).cut_off(true);
    assert!(!guard.is_lost());
    guard.lost().await;
    assert!(guard.is_lost());
    let left = left_on_the_store(&fleet, 1).await;
    assert!(left >= millis(900), "the margin is a tenth of the ttl; {left:?} left");
    let told = loop {
        let event = events.next().await.unwrap();
        if let EventKind::LockLost { fence } = event.kind {
            break (event.key, fence);
        }
    };
    assert_eq!(told, ("k".to_owned(), guard.fence()));
    assert!(matches!(guard.release().await, Err(LockError::Store { .. } | LockError::Lost { .. })));
}

#[tokio::test(start_paused = true)]
async fn lock_without_keep_alive_is_lost_shortly_before_its_ttl() {
    let fleet = fleet(2).await;
    let begun = Instant::now();
    let guard = fleet.server(0).lock("k").ttl("10s").keep_alive(false).acquire().await.unwrap();
    guard.lost().await;
    assert!((8500..=9100).contains(&begun.elapsed().as_millis()), "{:?}", begun.elapsed());
    assert!(fleet.server(1).lock("k").try_acquire().await.unwrap().is_none(), "not free yet");
    assert!(matches!(guard.release().await, Err(LockError::Lost { .. })));
}

#[tokio::test(start_paused = true)]
async fn manual_extension_counts_from_now_and_may_be_shorter() {
    let fleet = fleet(2).await;
    let guard = fleet.server(0).lock("k").ttl("10s").keep_alive(false).acquire().await.unwrap();
    fleet.run_for(secs(8)).await;
    guard.extend("20s").await.unwrap();
    fleet.run_for(secs(15)).await;
    assert!(!guard.is_lost());
    guard.confirm().await.unwrap();
    fleet.run_for(secs(15)).await;
    assert!(!guard.is_lost(), "with the ttl of the last extension");
    guard.extend(secs(2)).await.unwrap();
    assert!(left_on_the_store(&fleet, 1).await <= millis(2001));
    let begun = Instant::now();
    guard.lost().await;
    assert!(begun.elapsed() < secs(2), "before the shorter lease ends: {:?}", begun.elapsed());
    assert!(left_on_the_store(&fleet, 1).await > Duration::ZERO);
    assert!(matches!(guard.confirm().await, Err(LockError::Lost { .. })));
}

#[tokio::test(start_paused = true)]
async fn shorter_extension_counts_even_if_its_reply_is_lost() {
    let fleet = fleet(2).await;
    let guard = fleet.server(0).lock("k").ttl("60s").acquire().await.unwrap();
    fleet.server(0).lose_replies(true);
    assert!(matches!(guard.extend("3s").await, Err(LockError::Store { .. })));
    fleet.server(0).cut_off(true);
    let lost = timeout(secs(3), guard.lost()).await;
    assert!(lost.is_ok(), "the store has three seconds on record, not sixty");
    assert!(left_on_the_store(&fleet, 1).await > Duration::ZERO);
}

struct Note<'a>(&'a AtomicBool);

impl Drop for Note<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[tokio::test(start_paused = true)]
async fn code_under_a_lost_lock_is_dropped_before_its_lease_ends() {
    let fleet = fleet(2).await;
    let dropped = AtomicBool::new(false);
    let cut = async {
        fleet.run_for(secs(5)).await;
        fleet.server(0).cut_off(true);
    };
    let running = fleet.server(0).lock("k").ttl("10s").run(async |_| {
        let _note = Note(&dropped);
        std::future::pending::<()>().await;
    });
    let (ended, ()) = tokio::join!(running, cut);
    assert!(matches!(ended, Err(LockError::Lost { .. })), "{ended:?}");
    assert!(dropped.load(Ordering::SeqCst));
    assert!(left_on_the_store(&fleet, 1).await >= millis(900));
    fleet.server(0).cut_off(false);
    fleet.run_for(secs(2)).await;
    assert_eq!(fleet.history("k").await, History::default(), "no record is left");
}

#[tokio::test(start_paused = true)]
async fn suspended_holder_finds_its_lock_lost_when_it_resumes() {
    let fleet = fleet(2).await;
    let guard = fleet.server(0).lock("k").ttl("10s").acquire().await.unwrap();
    fleet.server(0).freeze();
    let next = fleet.server(1).lock("k").ttl("10s").acquire().await.unwrap();
    assert!(guard.is_lost(), "known without its server, which is suspended");
    fleet.server(0).thaw();
    timeout(secs(2), guard.lost()).await.expect("reported soon after it resumes");
    assert!(next.fence() > guard.fence());
    assert!(!next.is_lost());
    guard.release().await.expect_err("it was lost");
    assert!(fleet.server(0).lock("k").try_acquire().await.unwrap().is_none(), "the successor keeps it");
}

/// While a machine is suspended, its monotonic clock stops, and only its wall clock shows the pause.
#[tokio::test(start_paused = true)]
async fn lock_is_in_doubt_after_a_suspend_until_the_store_confirms_it() {
    let fleet = fleet(2).await;
    let guard = fleet.server(0).lock("k").ttl("30s").acquire().await.unwrap();
    let candidate = fleet.server(0).leader("l").campaign().unwrap();
    let leadership = candidate.elected().await.unwrap();
    fleet.server(0).clock().step(3600 * 1000);
    assert!(guard.is_lost() && leadership.is_lost() && !candidate.is_leader());
    fleet.run_for(secs(2)).await;
    assert!(
        !guard.is_lost() && !leadership.is_lost() && candidate.is_leader(),
        "no other server held them meanwhile"
    );
}

#[tokio::test(start_paused = true)]
async fn lock_of_a_crashed_server_is_free_after_its_ttl() {
    let fleet = fleet(2).await;
    let guard = fleet.server(0).lock("k").ttl("10s").acquire().await.unwrap();
    fleet.server(0).crash();
    let begun = Instant::now();
    let next = fleet.server(1).lock("k").ttl("10s").acquire().await.unwrap();
    assert!(begun.elapsed() <= millis(10_500), "{:?}", begun.elapsed());
    assert!(next.fence() > guard.fence() && guard.is_lost());
}
