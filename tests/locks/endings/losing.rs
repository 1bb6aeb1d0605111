//! A holder that can no longer prove its lock is told before anybody else is let in.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jobs::events::EventKind;
use jobs::history::History;
use jobs::locks::LockError;
use jobs::testing::Fleet;
use tokio::time::{Instant, timeout};

use crate::kit::{fleet, millis, secs};

/// How long the store still keeps others out.
async fn left_on_the_store(fleet: &Fleet, asker: usize) -> Duration {
    let locks = fleet.server(asker).locks().await.unwrap();
    locks.iter().find(|held| held.key == "k").and_then(|held| held.holder.remaining).unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_is_cut_off_is_told_before_its_lease_ends() {
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
async fn a_lock_that_is_not_kept_alive_is_lost_a_little_before_its_ttl() {
    let fleet = fleet(2).await;
    let begun = Instant::now();
    let guard = fleet.server(0).lock("k").ttl("10s").keep_alive(false).acquire().await.unwrap();
    guard.lost().await;
    assert!((8500..=9100).contains(&begun.elapsed().as_millis()), "{:?}", begun.elapsed());
    assert!(fleet.server(1).lock("k").try_acquire().await.unwrap().is_none(), "not free yet");
    assert!(matches!(guard.release().await, Err(LockError::Lost { .. })));
}

#[tokio::test(start_paused = true)]
async fn an_extension_by_hand_lasts_from_now_on_and_may_be_shorter() {
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
async fn a_shorter_extension_whose_answer_is_lost_counts_as_made() {
    let fleet = fleet(2).await;
    let guard = fleet.server(0).lock("k").ttl("60s").acquire().await.unwrap();
    fleet.server(0).lose_replies(true);
    assert!(matches!(guard.extend("3s").await, Err(LockError::Store { .. })));
    fleet.server(0).cut_off(true);
    let lost = timeout(secs(3), guard.lost()).await;
    assert!(lost.is_ok(), "the store heard of three seconds, not of sixty");
    assert!(left_on_the_store(&fleet, 1).await > Duration::ZERO);
}

struct Note<'a>(&'a AtomicBool);

impl Drop for Note<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[tokio::test(start_paused = true)]
async fn code_under_a_lost_lock_is_dropped_before_the_lease_ends() {
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
    assert_eq!(fleet.history("k").await, History::default(), "nothing is left of it");
}

#[tokio::test(start_paused = true)]
async fn a_frozen_holder_finds_its_lock_lost_when_it_wakes() {
    let fleet = fleet(2).await;
    let guard = fleet.server(0).lock("k").ttl("10s").acquire().await.unwrap();
    fleet.server(0).freeze();
    let next = fleet.server(1).lock("k").ttl("10s").acquire().await.unwrap();
    assert!(guard.is_lost(), "known without a word from its scheduler, which is frozen");
    fleet.server(0).thaw();
    timeout(secs(2), guard.lost()).await.expect("told soon after it wakes");
    assert!(next.fence() > guard.fence());
    assert!(!next.is_lost());
    guard.release().await.expect_err("it was lost");
    assert!(fleet.server(0).lock("k").try_acquire().await.unwrap().is_none(), "the successor keeps it");
}

/// In a suspended machine the steady clock stands still, and only the wall clock shows how long it slept.
#[tokio::test(start_paused = true)]
async fn a_lock_is_in_doubt_after_a_suspend_until_the_store_confirms_it() {
    let fleet = fleet(2).await;
    let guard = fleet.server(0).lock("k").ttl("30s").acquire().await.unwrap();
    let campaign = fleet.server(0).leader("l").campaign().unwrap();
    let term = campaign.elected().await.unwrap();
    fleet.server(0).clock().step(3600 * 1000);
    assert!(guard.is_lost() && term.is_lost() && !campaign.is_leader());
    fleet.run_for(secs(2)).await;
    assert!(!guard.is_lost() && !term.is_lost() && campaign.is_leader(), "nobody else had them meanwhile");
}

#[tokio::test(start_paused = true)]
async fn a_crashed_server_leaves_its_lock_to_the_others_after_its_ttl() {
    let fleet = fleet(2).await;
    let guard = fleet.server(0).lock("k").ttl("10s").acquire().await.unwrap();
    fleet.server(0).crash();
    let begun = Instant::now();
    let next = fleet.server(1).lock("k").ttl("10s").acquire().await.unwrap();
    assert!(begun.elapsed() <= millis(10_500), "{:?}", begun.elapsed());
    assert!(next.fence() > guard.fence() && guard.is_lost());
}
