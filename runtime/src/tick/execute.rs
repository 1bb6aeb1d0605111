//! One run of a job's function on the application's runtime.

use std::any::Any;
use std::convert::Infallible;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use singleton_jobs_policy::OnLost;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::sleep;

use super::polls::Polls;
use super::retry;
use crate::history::{FailedTry, RunOutcome};
use crate::job::current;
use crate::job::outcome::{cut, describe_error};
use crate::job::parameters::States;
use crate::job::registry::JobFuture;
use crate::job::run::Run;
use crate::job::{Job, UnleasedRun};
use crate::lease::HeldLease;
use crate::lease::validity::Validity;
use crate::observe::event::EventKind;
use crate::server::Server;
use crate::store::Ending;
use crate::util::watched::Flag;

/// The job's function on the application's runtime: `None` if it was not polled to its end because the lease
/// was lost, and its error as text, since an error's own code may panic or block.
type Task = JoinHandle<Option<Result<(), String>>>;

/// A run that took less is not told of, however quick the job usually is.
const SHORTEST_OVERRUN: Duration = Duration::from_millis(100);

/// How many failed tries are kept on record.
const KEPT_TRIES: usize = 10;

/// A run in progress, and what it is watched by.
pub(crate) struct Execution<'a> {
    server: &'a Server,
    job: &'a Arc<Job>,
    run: Run,
    validity: Arc<Validity>,
    /// An operator wants it cancelled.
    cancelled: Arc<Flag>,
    /// How long the job usually takes, if that is known.
    usual: Option<Duration>,
}

/// One try of a run.
pub(crate) struct Try {
    task: Task,
    polls: Arc<Polls>,
}

type Ended = Result<Option<Result<(), String>>, JoinError>;
type How = (RunOutcome, Option<String>);

impl<'a> Execution<'a> {
    /// Starts the job's function on the application's runtime.
    pub(crate) fn start(
        server: &'a Server,
        job: &'a Arc<Job>,
        run: &Run,
        lease: &HeldLease,
        usual: Option<Duration>,
    ) -> (Self, Try) {
        let (validity, cancelled) = (lease.validity().clone(), lease.cancelled().clone());
        let execution = Self { server, job, run: run.clone(), validity, cancelled, usual };
        let first_try = execution.start_try(run);
        (execution, first_try)
    }

    /// Spawns one try of the job's function on the application's runtime.
    fn start_try(&self, run: &Run) -> Try {
        let (job, states, polls) = (self.job.clone(), self.server.states.clone(), Arc::<Polls>::default());
        let under_lease = under_lease(job, run.clone(), states, self.validity.clone(), polls.clone());
        Try { task: self.server.app.spawn(under_lease), polls }
    }

    /// Watches over a run and repeats what failed. Returns only when its future is gone.
    pub(crate) async fn watch(&self, first_try: Try) -> Ending {
        if !self.begins(&first_try).await {
            return Ending::of(RunOutcome::NotStarted, self.server.remember);
        }
        let id = self.run.id();
        self.tell(if id.attempt == 1 { EventKind::Started(id) } else { EventKind::TakenOver(id) });
        self.watch_tries(first_try).await
    }

    /// Waits for the first poll of the job's function. A try that has not begun in time is revoked: a server that hangs
    /// must not keep others from the job.
    async fn begins(&self, Try { task, polls }: &Try) -> bool {
        let begins = tokio::select! {
            biased;
            begun = polls.begun() => begun,
            () = sleep(self.job.policy.ttl / 3) => !polls.revoke(),
        };
        if !begins {
            task.abort();
        }
        begins
    }

    async fn watch_tries(&self, first_try: Try) -> Ending {
        let mut timeout = pin!(sleep_or_not(self.job.policy.timeout));
        let mut overrun = pin!(self.tell_overrun());
        let mut failed_tries = Vec::new();
        let (mut run, mut this_try) = (self.run.clone(), first_try);
        loop {
            let tried = self.watch_try(&run, this_try, timeout.as_mut(), overrun.as_mut()).await;
            let (stopped_by, (outcome, error)) = tried;
            let retry = run.retry() + 1;
            let failed = matches!(outcome, RunOutcome::Failed | RunOutcome::Panicked);
            if !failed || retry > self.job.policy.retries || self.validity.is_lost() {
                return self.ending(outcome, error, failed_tries);
            }
            if let Some(stopped_by) = stopped_by {
                return self.ending(stopped_by, error, failed_tries);
            }
            let pause = retry::pause(self.job.policy.retry_delay, retry);
            let text = error.clone().unwrap_or_default();
            let (id, at) = (self.run.id(), self.server.time.now());
            if !self.server.stop.is_raised() {
                self.tell(EventKind::Retrying { run: id, retry, error: text.clone(), pause });
            }
            let stopped_by = tokio::select! {
                biased;
                () = self.validity.lost() => Some(RunOutcome::LeaseLost),
                // The tries that are left are for another server.
                () = self.server.stop.raised() => Some(RunOutcome::Cancelled),
                () = self.cancelled.raised() => Some(RunOutcome::Cancelled),
                () = &mut timeout => Some(RunOutcome::TimedOut),
                () = sleep(pause) => None,
            };
            if let Some(outcome) = stopped_by {
                run.cancel();
                return self.ending(outcome, error, failed_tries);
            }
            run = run.next_try();
            this_try = self.start_try(&run);
            if !self.begins(&this_try).await {
                // The application does not answer: the tries that are left are for another server, as above.
                run.cancel();
                return self.ending(RunOutcome::Cancelled, error, failed_tries);
            }
            failed_tries.push(FailedTry { number: retry, at, error: text });
            if failed_tries.len() > KEPT_TRIES {
                failed_tries.remove(0);
            }
        }
    }

    /// Watches over one try, and cancels it when the run must end: then that is returned, too.
    async fn watch_try(
        &self,
        run: &Run,
        Try { mut task, polls }: Try,
        mut timeout: Pin<&mut impl Future<Output = ()>>,
        mut overrun: Pin<&mut impl Future<Output = Infallible>>,
    ) -> (Option<RunOutcome>, How) {
        let mut astray = None;
        let mut blocked = pin!(self.tell_blocked(&polls));
        loop {
            let stopped_by = tokio::select! {
                ended = &mut task => {
                    if ended.as_ref().is_err_and(JoinError::is_cancelled) {
                        self.server.fail("the application's runtime, on which jobs run, has ended");
                    }
                    let (outcome, error) = how(ended, None);
                    if outcome == RunOutcome::LeaseLost {
                        run.cancel(); // its own poll found out first
                    }
                    return (None, (outcome, error));
                }
                () = self.validity.lost(), if astray.is_none() => RunOutcome::LeaseLost,
                () = self.server.cancel_runs.raised() => RunOutcome::Cancelled,
                () = self.cancelled.raised() => RunOutcome::Cancelled,
                () = &mut timeout => RunOutcome::TimedOut,
                never = &mut overrun => match never {},
                never = &mut blocked => match never {},
            };
            run.cancel();
            if stopped_by == RunOutcome::LeaseLost {
                astray = Some(UnleasedRun::new(self.job));
                if self.job.policy.on_lost == OnLost::Continue {
                    continue;
                }
            }
            task.abort();
            return (Some(stopped_by), how(self.gone(task, &polls, astray).await, Some(stopped_by)));
        }
    }

    /// Waits until a cancelled try is gone. One that blocks may outlive its lease.
    async fn gone(&self, mut task: Task, polls: &Polls, mut astray: Option<UnleasedRun<'_>>) -> Ended {
        let mut blocked = pin!(self.tell_blocked(polls));
        loop {
            tokio::select! {
                ended = &mut task => return ended,
                never = &mut blocked => match never {},
                () = self.validity.lost(), if astray.is_none() => astray = Some(UnleasedRun::new(self.job)),
            }
        }
    }

    /// Never ends: it tells once, and is there to be polled.
    async fn tell_blocked(&self, polls: &Polls) -> Infallible {
        let ttl = self.job.policy.ttl;
        loop {
            sleep(ttl).await;
            if polls.in_progress_for().is_some_and(|blocked| blocked >= ttl) {
                self.tell(EventKind::RunBlocked(self.run.id()));
                std::future::pending::<()>().await;
            }
        }
    }

    /// The same.
    async fn tell_overrun(&self) -> Infallible {
        if let Some(usual) = self.usual {
            sleep((usual * 2).max(SHORTEST_OVERRUN)).await;
            self.tell(EventKind::Overrun { run: self.run.id(), usual });
        }
        std::future::pending().await
    }

    fn tell(&self, kind: EventKind) {
        self.server.tell(Some(self.job), kind);
    }

    fn ending(&self, outcome: RunOutcome, error: Option<String>, failed_tries: Vec<FailedTry>) -> Ending {
        Ending { outcome, error, failed_tries, remember: self.server.remember, done_for: None }
    }
}

async fn sleep_or_not(duration: Option<Duration>) {
    match duration {
        Some(duration) => sleep(duration).await,
        None => std::future::pending().await,
    }
}

/// Polls the job only while its lease is proved. A process that was stopped or suspended may find its lease
/// gone when it wakes, before it could be notified: the job must not go on even to its next `await`.
async fn under_lease(
    job: Arc<Job>,
    run: Run,
    states: Arc<States>,
    validity: Arc<Validity>,
    polls: Arc<Polls>,
) -> Option<Result<(), String>> {
    let keeps_on = job.policy.on_lost == OnLost::Continue;
    let mut future: Option<JobFuture> = None;
    let ended = poll_fn(move |polling| {
        if !(keeps_on && future.is_some()) {
            match validity.poll_valid(polling) {
                Poll::Ready(true) => {}
                Poll::Ready(false) => {
                    polls.revoke();
                    return Poll::Ready(None);
                }
                Poll::Pending => return Poll::Pending,
            }
        }
        let Some(_in_progress) = polls.begin() else { return Poll::Ready(None) };
        let _current = current::enter(&run);
        future.get_or_insert_with(|| (job.call)(&run, &states)).as_mut().poll(polling).map(Some)
    })
    .await?;
    Some(ended.map_err(|error| describe_error(error.as_ref())))
}

/// A run that was stopped may still reach its end, and may panic when it is dropped: that is said, but is not how it
/// ended.
fn how(ended: Ended, stopped_by: Option<RunOutcome>) -> How {
    match ended {
        Ok(Some(Ok(()))) => (RunOutcome::Succeeded, None),
        Ok(Some(Err(error))) => (RunOutcome::Failed, Some(error)),
        Ok(None) => (RunOutcome::LeaseLost, None),
        Err(gone) if gone.is_panic() => {
            (stopped_by.unwrap_or(RunOutcome::Panicked), Some(panic_message(gone.into_panic())))
        }
        Err(_) => (stopped_by.unwrap_or(RunOutcome::Cancelled), None),
    }
}

fn panic_message(panic: Box<dyn Any + Send>) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let text = cut(text.unwrap_or("a panic without a message"));
    // What was thrown is the job's, and may panic again when it is dropped.
    let _dropped = catch_unwind(AssertUnwindSafe(|| drop(panic)));
    text
}
