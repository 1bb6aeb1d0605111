//! A simulated process: its tasks can be stopped, continued and killed together.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
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
    /// How often the state was set. A task that was polled since is registered, and need not look at the table.
    changes: AtomicU64,
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
        Arc::new(Self { runtime: Handle::current(), tasks: Mutex::default(), changes: AtomicU64::new(0) })
    }

    pub(crate) fn spawn<F>(self: &Arc<Self>, future: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let future = Some(Box::pin(future));
        let seen = (ProcessState::Running, 0);
        self.runtime.spawn(SimulatedTask { process: self.clone(), future, id: None, seen })
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
        self.changes.fetch_add(1, Ordering::SeqCst);
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

    fn tasks(&self) -> MutexGuard<'_, TaskTable> {
        lock(&self.tasks)
    }
}

/// One task of a process: polls a future only while the process is running. A killed future is dropped and never completes.
struct SimulatedTask<F> {
    process: Arc<SimulatedProcess>,
    /// `None` once it is gone. Boxed, since a spawned future is copied several times.
    future: Option<Pin<Box<F>>>,
    /// Its number in the table of the process, from its first poll on.
    id: Option<u64>,
    /// The state of the process when the task was registered, and how often it had been set.
    seen: (ProcessState, u64),
}

impl<F> SimulatedTask<F> {
    /// Returns the state of the process, and registers the task to be woken when it changes. A task of Tokio has one waker.
    fn check(&mut self, polling: &Context<'_>) -> ProcessState {
        if self.id.is_some() && self.process.changes.load(Ordering::SeqCst) == self.seen.1 {
            return self.seen.0;
        }
        let mut tasks = self.process.tasks();
        let id = *self.id.get_or_insert_with(|| {
            tasks.next_id += 1;
            tasks.next_id
        });
        tasks.wakers.insert(id, polling.waker().clone());
        self.seen = (tasks.state, self.process.changes.load(Ordering::SeqCst));
        tasks.state
    }

    /// Drops the future, and removes the task from the table of its process.
    fn end(&mut self) {
        self.future = None;
        if let Some(id) = self.id.take() {
            self.process.tasks().wakers.remove(&id);
        }
    }
}

impl<F: Future> Future for SimulatedTask<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, polling: &mut Context<'_>) -> Poll<F::Output> {
        let task = self.get_mut();
        if task.future.is_none() {
            return Poll::Pending; // it was killed
        }
        let polled = match (task.check(polling), &mut task.future) {
            (ProcessState::Running, Some(future)) => future.as_mut().poll(polling),
            (ProcessState::Stopped, _) => return Poll::Pending,
            _ => {
                task.end();
                return Poll::Pending;
            }
        };
        if polled.is_ready() {
            task.end();
        }
        polled
    }
}

impl<F> Drop for SimulatedTask<F> {
    fn drop(&mut self) {
        self.end();
    }
}
