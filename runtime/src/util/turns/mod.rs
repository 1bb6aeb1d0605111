//! The order in which callers use a connection that sends one message at a time.

use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;

use crate::util::lock;

/// One turn at a time, the newest caller first.
///
/// A caller waits for a limited time. If there are more requests than round trips, the oldest caller has the least time
/// left: its message would be sent, and abandoned with the connection before the answer arrives. So the first in would be
/// the first to fail, and hardly any request would succeed. The newest caller has all its time, and the request that
/// follows a look, or extends a lease, does not wait behind all claims.
#[derive(Default)]
pub(crate) struct Turns(Arc<Mutex<TurnState>>);

#[derive(Default)]
struct TurnState {
    is_taken: bool,
    /// Callers that wait, the newest last. One that has stopped waiting has dropped its receiver.
    waiting: Vec<oneshot::Sender<Turn>>,
}

/// A turn; dropping it lets the next caller have its own.
pub(crate) struct Turn(Option<Arc<Mutex<TurnState>>>);

impl Turns {
    /// Waits for a turn. The future can be dropped at any point.
    pub(crate) async fn take(&self) -> Turn {
        loop {
            let waiting = {
                let mut state = lock(&self.0);
                if !state.is_taken {
                    state.is_taken = true;
                    return Turn(Some(self.0.clone()));
                }
                let (sender, waiting) = oneshot::channel();
                state.waiting.push(sender);
                waiting
            };
            if let Ok(turn) = waiting.await {
                return turn;
            }
        }
    }

    #[cfg(any(feature = "mysql", feature = "postgres"))]
    pub(crate) fn is_free(&self) -> bool {
        !lock(&self.0).is_taken
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(mut turns) = self.0.take() else { return };
        loop {
            let next = {
                let mut state = lock(&turns);
                let next = state.waiting.pop();
                state.is_taken = next.is_some();
                next
            };
            let Some(next) = next else { return };
            // A receiver that is dropped later drops the turn that it was sent.
            let Err(mut returned) = next.send(Self(Some(turns))) else { return };
            match returned.0.take() {
                Some(returned) => turns = returned,
                None => return,
            }
        }
    }
}

#[cfg(test)]
mod tests;
