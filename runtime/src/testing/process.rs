//! A simulated process: its tasks can be stopped, continued and killed together.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use tokio::runtime::Handle;
use tokio::task::{AbortHandle, JoinHandle};

use crate::util::lock;

/// Tasks that behave like the threads of one process: none is polled while it is stopped, and all are dropped
/// when it is killed.
pub(crate) struct SimulatedProcess {
    runtime: Handle,
    tasks: Mutex<TaskTable>,
}

#[derive(Default)]
struct TaskTable {
    state: ProcessState,
    next_id: u64,
    /// The wakers of all tasks, to be woken when the state changes.
    wakers: BTreeMap<u64, Waker>,
    /// Tasks that were aborted while the process was stopped.
    aborted: Vec<AbortHandle>,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum ProcessState {
    #[default]
    Running,
    Stopped,
    Killed,
}

impl SimulatedProcess {
    /// A process whose tasks run on the current runtime.
    pub(crate) fn on_current_runtime() -> Arc<Self> {
        Arc::new(Self { runtime: Handle::current(), tasks: Mutex::default() })
    }

    pub(crate) fn spawn<F>(self: &Arc<Self>, future: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        self.runtime.spawn(self.clone().poll_while_running(future))
    }

    /// Stops the process as SIGSTOP does.
    pub(crate) fn stop(&self) {
        self.set(ProcessState::Stopped);
    }

    /// Continues a stopped process as SIGCONT does.
    pub(crate) fn resume(&self) {
        self.set(ProcessState::Running);
    }

    /// Kills the process as SIGKILL does. That is final.
    pub(crate) fn kill(&self) {
        self.set(ProcessState::Killed);
    }

    /// Aborts a task, as soon as the process polls its tasks: the future of one that is stopped or blocked is still there.
    pub(crate) fn abort(&self, task: AbortHandle) {
        let mut tasks = self.tasks();
        if tasks.state == ProcessState::Stopped {
            tasks.aborted.push(task);
        } else {
            drop(tasks);
            task.abort();
        }
    }

    pub(crate) fn is_killed(&self) -> bool {
        self.tasks().state == ProcessState::Killed
    }

    fn set(&self, state: ProcessState) {
        let mut tasks = self.tasks();
        if tasks.state != ProcessState::Killed {
            tasks.state = state;
        }
        let wakers: Vec<_> = std::mem::take(&mut tasks.wakers).into_values().collect();
        let aborted = if tasks.state == ProcessState::Stopped {
            Vec::new()
        } else {
            std::mem::take(&mut tasks.aborted)
        };
        drop(tasks);
        for task in aborted {
            task.abort();
        }
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Polls a future only while the process is running. A killed future is dropped and never completes.
    async fn poll_while_running<F: Future>(self: Arc<Self>, future: F) -> F::Output {
        let output = {
            let task = self.add_task();
            let mut future = pin!(future);
            poll_fn(|polling| match task.check(polling) {
                ProcessState::Running => future.as_mut().poll(polling).map(Some),
                ProcessState::Stopped => Poll::Pending,
                ProcessState::Killed => Poll::Ready(None),
            })
            .await
        };
        match output {
            Some(output) => output,
            None => std::future::pending().await,
        }
    }

    fn add_task(&self) -> SimulatedTask<'_> {
        let mut tasks = self.tasks();
        tasks.next_id += 1;
        SimulatedTask { process: self, id: tasks.next_id }
    }

    fn tasks(&self) -> MutexGuard<'_, TaskTable> {
        lock(&self.tasks)
    }
}

/// One task of a process; removed from its table when dropped.
struct SimulatedTask<'a> {
    process: &'a SimulatedProcess,
    id: u64,
}

impl SimulatedTask<'_> {
    /// Returns the state of the process, and registers the task to be woken when it changes.
    fn check(&self, polling: &Context<'_>) -> ProcessState {
        let mut tasks = self.process.tasks();
        tasks.wakers.insert(self.id, polling.waker().clone());
        tasks.state
    }
}

impl Drop for SimulatedTask<'_> {
    fn drop(&mut self) {
        self.process.tasks().wakers.remove(&self.id);
    }
}
