use std::cell::Cell;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::store::net::connection::first_of_two;

/// Attempts that take so long each, in milliseconds, and how they end. Returns the result, after how long, and how
/// many attempts were made.
async fn race(attempts: [(u64, Result<u8, u8>); 2]) -> (Result<u8, u8>, u128, usize) {
    let (begun, made) = (Instant::now(), Cell::new(0));
    let result = first_of_two(|| {
        let (millis, result) = attempts[made.replace(made.get() + 1)];
        async move {
            sleep(Duration::from_millis(millis)).await;
            result
        }
    });
    let result = result.await;
    (result, begun.elapsed().as_millis(), made.get())
}

#[tokio::test(start_paused = true)]
async fn what_is_quick_has_no_rival_whether_it_succeeds_or_fails() {
    assert_eq!(race([(299, Ok(1)), (0, Ok(2))]).await, (Ok(1), 299, 1));
    assert_eq!(race([(299, Err(1)), (0, Ok(2))]).await, (Err(1), 299, 1));
}

#[tokio::test(start_paused = true)]
async fn what_takes_long_is_overtaken_or_wins_after_all() {
    assert_eq!(race([(2000, Ok(1)), (10, Ok(2))]).await, (Ok(2), 310, 2));
    assert_eq!(race([(350, Ok(1)), (2000, Ok(2))]).await, (Ok(1), 350, 2));
}

#[tokio::test(start_paused = true)]
async fn failed_connection_leaves_the_other_and_the_first_error_is_returned() {
    assert_eq!(race([(400, Err(1)), (200, Ok(2))]).await, (Ok(2), 500, 2));
    assert_eq!(race([(500, Ok(1)), (100, Err(2))]).await, (Ok(1), 500, 2));
    assert_eq!(race([(400, Err(1)), (200, Err(2))]).await, (Err(1), 500, 2));
    assert_eq!(race([(500, Err(1)), (100, Err(2))]).await, (Err(1), 500, 2));
}
