//! Waiting for a lock that is held.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use jobs::locks::LockError;
use tokio::time::Instant;

use super::kit::{fleet, millis, secs};

#[tokio::test(start_paused = true)]
async fn waiters_in_one_process_are_served_first_in_first_out() {
    let fleet = fleet(1).await;
    let guard = fleet.server(0).lock("k").acquire().await.unwrap();
    let served = Arc::new(Mutex::new(Vec::new()));
    let mut waiters = Vec::new();
    for number in 0..20 {
        let (lock, served) = (fleet.server(0).lock("k"), served.clone());
        waiters.push(tokio::spawn(async move {
            let guard = lock.acquire().await.unwrap();
            served.lock().unwrap().push((number, guard.fence()));
            tokio::time::sleep(millis(5)).await;
            guard.release().await.unwrap();
        }));
        fleet.run_for(millis(1)).await;
    }
    guard.release().await.unwrap();
    for waiter in waiters {
        waiter.await.unwrap();
    }
    let served = served.lock().unwrap();
    assert!(served.is_sorted_by_key(|(number, _)| *number), "{served:?}");
    assert!(served.is_sorted_by(|one, next| one.1 < next.1), "fences grow: {served:?}");
}

#[tokio::test(start_paused = true)]
async fn waiter_notices_a_release_in_another_process_at_once() {
    let fleet = fleet(2).await;
    let guard = fleet.server(0).lock("k").ttl("60s").acquire().await.unwrap();
    let waiting = tokio::spawn(fleet.server(1).lock("k").acquire());
    fleet.run_for(secs(5)).await;
    let begun = Instant::now();
    guard.release().await.unwrap();
    drop(waiting.await.unwrap().unwrap());
    assert!(begun.elapsed() < millis(50), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn second_waiter_of_a_queue_learns_the_holder() {
    let fleet = fleet(2).await;
    let _guard = fleet.server(1).lock("k").acquire().await.unwrap();
    let first = tokio::spawn(fleet.server(0).lock("k").wait("60s").acquire());
    fleet.run_for(millis(10)).await;
    let begun = Instant::now();
    let second = fleet.server(0).lock("k").wait("2s").acquire().await.unwrap_err();
    assert_eq!(begun.elapsed().as_secs(), 2);
    let LockError::Held { holder, .. } = second else { panic!("{second}") };
    assert_eq!(holder.server.as_deref(), Some("server-1"));
    assert!(!first.is_finished());
}

#[tokio::test(start_paused = true)]
async fn wait_queue_continues_when_its_first_caller_gives_up() {
    let fleet = fleet(2).await;
    let guard = fleet.server(1).lock("k").acquire().await.unwrap();
    let impatient = tokio::spawn(fleet.server(0).lock("k").wait("2s").acquire());
    let dropped = tokio::spawn(fleet.server(0).lock("k").acquire());
    fleet.run_for(millis(10)).await;
    let patient = tokio::spawn(fleet.server(0).lock("k").acquire());
    fleet.run_for(secs(3)).await;
    assert!(impatient.await.unwrap().is_err());
    dropped.abort();
    fleet.run_for(secs(1)).await;
    guard.release().await.unwrap();
    let won = tokio::time::timeout(secs(1), patient).await.expect("its turn").unwrap();
    assert!(won.is_ok());
}

#[tokio::test(start_paused = true)]
async fn lock_passes_to_the_next_waiter_when_a_waiter_is_killed() {
    let fleet = fleet(3).await;
    let guard = fleet.server(0).lock("k").ttl("10s").acquire().await.unwrap();
    let killed = tokio::spawn(fleet.server(1).lock("k").ttl("10s").acquire());
    fleet.run_for(secs(1)).await;
    let next = tokio::spawn(fleet.server(2).lock("k").ttl("10s").acquire());
    fleet.run_for(secs(1)).await;
    fleet.server(1).crash();
    guard.release().await.unwrap();
    drop(
        tokio::time::timeout(secs(1), next)
            .await
            .expect("the killed waiter does not block it")
            .unwrap()
            .unwrap(),
    );
    assert!(matches!(killed.await.unwrap(), Err(LockError::ShutDown { .. })));
}

#[tokio::test(start_paused = true)]
async fn acquire_waits_for_an_unreachable_store_and_runs_nothing_meanwhile() {
    let fleet = fleet(1).await;
    fleet.server(0).cut_off(true);
    let tried = fleet.server(0).lock("k").try_acquire().await;
    assert!(matches!(tried, Err(LockError::Store { .. })), "no store, no lock: {tried:?}");
    let begun = Instant::now();
    let impatient = fleet.server(0).lock("k").wait("2s").acquire().await;
    assert!(matches!(impatient, Err(LockError::Store { .. })), "{impatient:?}");
    assert!((2..4).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
    let patient = tokio::spawn(fleet.server(0).lock("k").acquire());
    fleet.run_for(secs(60)).await;
    assert!(!patient.is_finished());
    fleet.server(0).cut_off(false);
    drop(patient.await.unwrap().unwrap());
}

#[tokio::test(start_paused = true)]
async fn lock_won_by_a_lost_reply_is_released() {
    let fleet = fleet(2).await;
    fleet.server(0).set_latency(millis(50));
    fleet.server(0).lose_replies(true);
    let lost = fleet.server(0).lock("k").ttl("600s").try_acquire().await;
    assert!(matches!(lost, Err(LockError::Store { .. })));
    fleet.server(0).cut_off(true); // while it is being given back
    fleet.run_for(secs(1)).await;
    assert!(fleet.server(1).lock("k").try_acquire().await.unwrap().is_none(), "the control: it had won");
    fleet.server(0).lose_replies(false);
    fleet.server(0).cut_off(false);
    let next = fleet.server(1).lock("k").wait("5s").acquire().await;
    assert!(next.is_ok(), "released long before its ttl: {next:?}");
}

#[tokio::test(start_paused = true)]
async fn late_reply_does_not_grant_the_lock() {
    let fleet = fleet(2).await;
    fleet.server(0).set_latency(Duration::from_millis(160));
    let guard = fleet.server(0).lock("k").ttl("1s").acquire().await.expect("within a sixth of its ttl");
    assert!(!guard.is_lost());
    guard.release().await.unwrap();
    fleet.server(0).set_latency(millis(300));
    let slow = fleet.server(0).lock("k").ttl("1s").wait("3s").acquire().await;
    assert!(matches!(slow, Err(LockError::Store { .. })), "{slow:?}");
}
