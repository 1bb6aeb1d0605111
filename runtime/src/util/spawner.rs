//! Spawning tasks.

use std::pin::Pin;
#[cfg(any(test, feature = "testing"))]
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::runtime::Handle;
use tokio::task::{JoinError, JoinHandle};

#[cfg(any(test, feature = "testing"))]
use crate::testing::SimulatedProcess;

/// Spawns tasks on a runtime.
#[derive(Clone)]
pub(crate) enum Spawner {
    /// In production: the scheduler's runtime, or the application's.
    Runtime(Handle),
    /// In the test kit: a process that a test can stop and kill.
    #[cfg(any(test, feature = "testing"))]
    Simulated(Arc<SimulatedProcess>),
}

impl Spawner {
    pub(crate) fn spawn<F>(&self, future: F) -> SpawnedTask<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        match self {
            Self::Runtime(runtime) => SpawnedTask {
                handle: runtime.spawn(future),
                #[cfg(any(test, feature = "testing"))]
                process: None,
            },
            #[cfg(any(test, feature = "testing"))]
            Self::Simulated(process) => {
                SpawnedTask { handle: process.spawn(future), process: Some(process.clone()) }
            }
        }
    }
}

/// A task that was spawned. Dropping it does not end the task.
pub(crate) struct SpawnedTask<T> {
    handle: JoinHandle<T>,
    #[cfg(any(test, feature = "testing"))]
    process: Option<Arc<SimulatedProcess>>,
}

impl<T> SpawnedTask<T> {
    /// Ends the task at its next `await`. On a runtime that is blocked that is when it polls tasks again.
    pub(crate) fn abort(&self) {
        #[cfg(any(test, feature = "testing"))]
        if let Some(process) = &self.process {
            return process.abort(self.handle.abort_handle());
        }
        self.handle.abort();
    }
}

impl<T> Future for SpawnedTask<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, polling: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.handle).poll(polling)
    }
}
