use std::cell::RefCell;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::*;

const ROUND_TRIP: Duration = Duration::from_millis(10);

#[tokio::test(start_paused = true)]
async fn newest_caller_is_next() {
    let turns = Turns::default();
    let order = RefCell::new(Vec::new());
    let call = async |name: u32| {
        let _turn = turns.take().await;
        order.borrow_mut().push(name);
        sleep(ROUND_TRIP).await;
    };
    tokio::join!(call(1), call(2), call(3));
    assert_eq!(*order.borrow(), [1, 3, 2]);
    assert!(turns.is_free());
}

#[tokio::test(start_paused = true)]
async fn caller_that_stopped_waiting_is_passed_over() {
    let turns = Turns::default();
    let first = turns.take().await;
    assert!(timeout(ROUND_TRIP, turns.take()).await.is_err());
    drop(first);
    assert!(turns.is_free());
    drop(turns.take().await);
    assert!(turns.is_free());
}

#[tokio::test(start_paused = true)]
async fn turn_that_arrives_at_a_dropped_caller_is_free_again() {
    let turns = Turns::default();
    let first = turns.take().await;
    let mut second = Box::pin(turns.take());
    assert!(timeout(ROUND_TRIP, &mut second).await.is_err());
    drop(first);
    assert!(!turns.is_free(), "it was given to the second caller");
    drop(second);
    assert!(turns.is_free());
}

/// 200 requests a second over a connection that makes 100 round trips a second, each with a third of a second of patience.
#[tokio::test(start_paused = true)]
async fn overload_leaves_as_many_requests_in_time_as_there_are_round_trips() {
    let turns = Arc::new(Turns::default());
    let answered = Arc::new(Mutex::new(0));
    for _ in 0..400 {
        let (turns, answered) = (turns.clone(), answered.clone());
        tokio::spawn(timeout(Duration::from_millis(333), async move {
            let _turn = turns.take().await;
            sleep(ROUND_TRIP).await;
            *lock(&answered) += 1;
        }));
        sleep(ROUND_TRIP / 2).await;
    }
    assert!(*lock(&answered) >= 190, "{} of 200 round trips were of use", lock(&answered));
}
