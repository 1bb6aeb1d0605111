//! The connection of a test server to the store of its fleet.

use std::sync::Mutex;
use std::time::Duration;

use super::intercept::{Hook, HookFuture, Intercept, Request};
use crate::store::{StoreError, StoreErrorKind};

/// One server's connection to the store of its fleet.
pub(super) type NetworkedStore = Intercept<SimulatedNetwork>;

/// The simulated faults of a connection.
#[derive(Default)]
pub(super) struct SimulatedNetwork(Mutex<Conditions>);

#[derive(Clone, Copy, Default)]
pub(super) struct Conditions {
    /// Whether requests do not arrive.
    pub(super) cut: bool,
    /// Whether the replies to writes are lost.
    pub(super) replies_lost: bool,
    /// Latency of each request.
    pub(super) latency: Duration,
}

impl SimulatedNetwork {
    pub(super) fn change(&self, change: impl FnOnce(&mut Conditions)) {
        change(&mut self.0.lock().expect("no code panics with it"));
    }

    fn get(&self) -> Conditions {
        *self.0.lock().expect("no code panics with it")
    }
}

impl Hook for SimulatedNetwork {
    fn before<'a>(&'a self, _request: Request<'a>) -> HookFuture<'a> {
        Box::pin(async move {
            let latency = self.get().latency;
            if !latency.is_zero() {
                tokio::time::sleep(latency).await;
            }
            if self.get().cut { Err(broken()) } else { Ok(()) }
        })
    }

    fn after<'a>(&'a self, request: Request<'a>) -> HookFuture<'a> {
        let writes = matches!(request, Request::Swap(..) | Request::PutNote(..));
        let lost = writes && self.get().replies_lost;
        Box::pin(std::future::ready(if lost { Err(broken()) } else { Ok(()) }))
    }
}

fn broken() -> StoreError {
    StoreError::new(StoreErrorKind::Unreachable, "reach", "memory", "the test has cut the connection")
}
