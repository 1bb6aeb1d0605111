//! Semaphores.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::kit::{fleet, millis, secs};

#[tokio::test(start_paused = true)]
async fn semaphore_never_has_more_holders_than_slots() {
    let fleet = fleet(4).await;
    let (now, most, calls) =
        (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    let mut callers = Vec::new();
    for number in 0..40 {
        let slots = fleet.server(number % 4).semaphore("api", 5).ttl("10s");
        let (now, most, calls) = (now.clone(), most.clone(), calls.clone());
        callers.push(tokio::spawn(async move {
            let called = slots.run(async |_| {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::time::sleep(secs(2)).await;
                now.fetch_sub(1, Ordering::SeqCst);
                calls.fetch_add(1, Ordering::SeqCst);
            });
            called.await.unwrap();
        }));
    }
    for caller in callers {
        caller.await.unwrap();
    }
    assert_eq!((most.load(Ordering::SeqCst), calls.load(Ordering::SeqCst)), (5, 40));
}

#[tokio::test(start_paused = true)]
async fn semaphore_lists_its_holders_and_its_fences_grow() {
    let fleet = fleet(2).await;
    let slots = |server: usize| fleet.server(server).semaphore("api", 2).ttl("10s");
    let _lock = fleet.server(0).lock("api").acquire().await.expect("slots and the lock are independent");
    let one = slots(0).acquire().await.unwrap();
    let two = slots(1).try_acquire().await.unwrap().unwrap();
    assert!(two.fence() > one.fence());
    assert!(slots(0).try_acquire().await.unwrap().is_none());
    let holders = slots(1).holders().await.unwrap();
    let names: Vec<_> = holders.iter().filter_map(|held| held.holder.server.as_deref()).collect();
    assert_eq!(names, ["server-0", "server-1"]);
    fleet.run_for(secs(60)).await;
    assert!(!one.is_lost() && !two.is_lost(), "kept alive");
    one.release().await.unwrap();
    let three = slots(1).wait(millis(100)).acquire().await.unwrap();
    assert!(three.fence() > two.fence());
}

#[tokio::test(start_paused = true)]
async fn slot_of_a_crashed_server_is_free_after_its_ttl() {
    let fleet = fleet(2).await;
    let slots = |server: usize| fleet.server(server).semaphore("api", 1).ttl("10s");
    let lost = slots(0).acquire().await.unwrap();
    fleet.server(0).crash();
    let begun = tokio::time::Instant::now();
    drop(slots(1).acquire().await.unwrap());
    assert!((9500..=10_500).contains(&begun.elapsed().as_millis()), "{:?}", begun.elapsed());
    assert!(lost.is_lost());
}

#[tokio::test(start_paused = true)]
async fn slot_of_a_server_that_is_cut_off_is_lost_before_another_gets_it() {
    let fleet = fleet(2).await;
    let slots = |server: usize| fleet.server(server).semaphore("api", 1).ttl("10s");
    let lost = slots(0).acquire().await.unwrap();
    fleet.server(0).cut_off(true);
    lost.lost().await;
    assert!(slots(1).try_acquire().await.unwrap().is_none(), "reported as lost first");
    drop(slots(1).acquire().await.unwrap());
}
