//! Spawning tasks.

#[cfg(any(test, feature = "testing"))]
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::task::JoinHandle;

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
    pub(crate) fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        match self {
            Self::Runtime(runtime) => runtime.spawn(future),
            #[cfg(any(test, feature = "testing"))]
            Self::Simulated(process) => process.spawn(future),
        }
    }
}
