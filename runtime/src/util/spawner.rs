//! Spawning tasks.

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use crate::testing::SimulatedProcess;

/// Spawns tasks on a runtime.
#[derive(Clone)]
pub(crate) enum Spawner {
    /// In production: the scheduler's runtime, or the application's.
    Runtime(Handle),
    /// In the test kit: a process that a test can stop and kill.
    Simulated(Arc<SimulatedProcess>),
}

impl Spawner {
    pub(crate) fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        match self {
            Self::Runtime(runtime) => runtime.spawn(future),
            Self::Simulated(process) => process.spawn(future),
        }
    }
}
