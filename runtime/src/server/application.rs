//! The application's runtime, on which jobs run, and whether it polls its tasks.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

use super::Server;
use crate::observe::event::EventKind;
use crate::util::lock;
use crate::util::spawner::{SpawnedTask, Spawner};
use crate::util::watched::{Flag, WatchedNumber};

/// The application's runtime, probed by small tasks, one at a time. While a probe is not polled, the server must claim
/// nothing: it could not start the runs that it wins, and would only keep other servers from them.
pub(crate) struct Application {
    /// Where jobs run.
    runtime: Spawner,
    answered: Arc<WatchedNumber>,
    /// A probe was dropped without a poll: the runtime has ended.
    ended: Arc<Flag>,
    probe: Mutex<Probe>,
}

/// A task on the application's runtime that answers one probe.
struct ProbeTask {
    number: i64,
    answered: Arc<WatchedNumber>,
    ended: Arc<Flag>,
}

impl Drop for ProbeTask {
    fn drop(&mut self) {
        if self.answered.get() < self.number {
            self.ended.raise();
        }
    }
}

/// The newest probe.
#[derive(Default)]
struct Probe {
    /// The number of probes sent so far.
    number: i64,
    sent: Option<Instant>,
    is_reported: bool,
}

/// An application that takes this long to poll a task is reported as blocked, and the server as not ready.
const BLOCKED_AFTER: Duration = Duration::from_secs(1);

impl Application {
    pub(crate) fn new(runtime: Spawner) -> Self {
        Self { runtime, answered: Arc::default(), ended: Arc::default(), probe: Mutex::default() }
    }

    pub(crate) fn spawn<F>(&self, future: F) -> SpawnedTask<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        self.runtime.spawn(future)
    }

    /// How long a probe has been waiting, if that is long enough to count as blocked.
    pub(crate) fn blocked_for(&self) -> Option<Duration> {
        let probe = self.probe();
        let waiting = self.answered.get() < probe.number;
        probe.sent.map(|sent| sent.elapsed()).filter(|waited| waiting && *waited >= BLOCKED_AFTER)
    }

    /// Sends a probe unless one is on its way, and returns its number.
    pub(crate) fn send_probe(&self) -> i64 {
        let mut probe = self.probe();
        if self.answered.get() < probe.number {
            return probe.number;
        }
        probe.number += 1;
        probe.sent = Some(Instant::now());
        let (answered, ended) = (self.answered.clone(), self.ended.clone());
        let task = ProbeTask { number: probe.number, answered, ended };
        drop(self.runtime.spawn(async move { task.answered.set(task.number) }));
        probe.number
    }

    fn probe(&self) -> std::sync::MutexGuard<'_, Probe> {
        lock(&self.probe)
    }
}

impl Server {
    /// Waits until the application's runtime polls a task, and reports one that takes long. Never resolves once that
    /// runtime has ended: then this server has failed.
    pub(crate) async fn application_answers(&self) {
        tokio::select! {
            biased;
            () = self.probe_is_answered() => {}
            () = self.app.ended.raised() => {
                self.fail("the application's runtime, on which jobs run, has ended");
                std::future::pending::<()>().await;
            }
        }
    }

    async fn probe_is_answered(&self) {
        let number = self.app.send_probe();
        let answered = self.app.answered.exceeds(number - 1);
        tokio::pin!(answered);
        tokio::select! {
            biased;
            () = &mut answered => {}
            () = tokio::time::sleep(BLOCKED_AFTER) => {
                let is_news = !std::mem::replace(&mut self.app.probe().is_reported, true);
                if is_news {
                    self.emit(None, EventKind::ApplicationBlocked);
                }
                answered.await;
            }
        }
        if std::mem::take(&mut self.app.probe().is_reported) {
            self.emit(None, EventKind::ApplicationBack);
        }
    }
}
