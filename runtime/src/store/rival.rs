//! A connection that takes long to open gets a rival: its set-up may have fallen silent, and a lease does not wait.

use std::pin::pin;
use std::time::Duration;

use tokio::time::sleep;

/// Most connections are open by then, and a lease of two seconds has not ended.
const LONG: Duration = Duration::from_millis(300);

/// The attempt that succeeds first; the second is made when the first takes long. If both fail, the first one's error.
pub(super) async fn first_of_two<T, E, F>(attempt: impl Fn() -> F) -> Result<T, E>
where
    F: Future<Output = Result<T, E>>,
{
    let mut first = pin!(attempt());
    tokio::select! {
        biased;
        result = &mut first => return result,
        () = sleep(LONG) => {}
    }
    let mut second = pin!(attempt());
    tokio::select! {
        biased;
        result = &mut first => match result {
            Err(error) => second.await.map_err(|_| error),
            done => done,
        },
        result = &mut second => match result {
            Err(_) => first.await,
            done => done,
        },
    }
}

#[cfg(test)]
mod tests;
