//! One run: calls the job's function, watches over it, cancels it, and calls it again after a failure.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use singleton_jobs_policy::OnLost;
use singleton_jobs_policy::timing::request_timeout;
use tokio::task::JoinError;
use tokio::time::{Instant, sleep};

use super::poll_tracker::PollTracker;
use super::try_task::{Call, TryResult, TryTask};
use super::{report, retry};
use crate::history::{FailedTry, RunOutcome, RunRecord};
use crate::job::outcome::cut;
use crate::job::run::Run;
use crate::job::{Job, UnleasedRun};
use crate::lease::HeldLease;
use crate::lease::validity::Validity;
use crate::observe::event::EventKind;
use crate::observe::run_span::RunSpan;
use crate::server::Server;
use crate::store::Ending;
use crate::util::planted::{PlantedBug, is_planted};
use crate::util::spawner::SpawnedTask;
use crate::util::watched::Flag;

/// A run that took less is not reported as an overrun, however quick the job usually is.
const SHORTEST_OVERRUN: Duration = Duration::from_millis(100);

/// How many failed tries are kept in a run's record.
const KEPT_TRIES: usize = 10;

/// A run in progress.
pub(crate) struct Execution {
    pub(super) server: Arc<Server>,
    pub(super) job: Arc<Job>,
    run: Run,
    validity: Arc<Validity>,
    /// Raised when an operator asks to cancel the run.
    cancel_requested: Arc<Flag>,
    /// The mean duration of the job's successful runs, if it is known.
    usual_duration: Option<Duration>,
    span: RunSpan,
}

impl Execution {
    pub(crate) fn new(server: &Arc<Server>, job: &Arc<Job>, run: &Run, lease: &HeldLease) -> Self {
        Self {
            server: server.clone(),
            job: job.clone(),
            run: run.clone(),
            validity: lease.validity().clone(),
            cancel_requested: lease.cancel_requested().clone(),
            usual_duration: lease.usual_duration(),
            span: RunSpan::open(run),
        }
    }

    /// Calls the job's function on the application's runtime, unless the server stops claiming before that.
    pub(crate) fn start(&self) -> TryTask {
        self.start_try(&self.run, PollTracker::unless(self.server.no_new_runs.clone()))
    }

    fn start_try(&self, run: &Run, polls: PollTracker) -> TryTask {
        let polls = Arc::new(polls);
        let call = Call {
            job: self.job.clone(),
            run: run.clone(),
            states: self.server.states.clone(),
            validity: self.validity.clone(),
            polls: polls.clone(),
            span: self.span.get().clone(),
        };
        TryTask { handle: self.server.app.spawn(call.poll_under_lease()), polls }
    }

    /// Watches over the run, and calls its function again after a failure. Returns only when its future is
    /// gone.
    pub(crate) async fn watch(&self, first_try: TryTask) -> Ending {
        if !self.begins(&first_try).await {
            return Ending::of(RunOutcome::NotStarted, self.server.history_limit);
        }
        let id = self.run.id();
        self.emit(if id.attempt == 1 { EventKind::Started(id) } else { EventKind::TakenOver(id) });
        self.watch_tries(first_try).await
    }

    /// Whether a try that failed had committed the work of the run before.
    async fn is_committed(&self) -> bool {
        if !self.run.finish_called() {
            return false;
        }
        let requests = self.server.requests(request_timeout(self.job.policy.ttl));
        let look = requests.show(self.run.key()).await;
        look.is_ok_and(|look| look.fence == self.run.fence() && look.finished.is_some())
    }

    /// Closes the span of the run, whose future is gone.
    pub(crate) fn close_span(&mut self, record: &RunRecord) {
        self.span.close(record);
    }

    /// Reports the end of the run.
    pub(crate) fn report_end(&self, record: &RunRecord) {
        report::ended(&self.server, &self.job, self.run.id(), record);
    }

    /// Waits for the first poll of the job's function. A try that has not begun in time is revoked: a server
    /// whose application hangs must not keep other servers from the job.
    async fn begins(&self, TryTask { handle, polls }: &TryTask) -> bool {
        let begins = tokio::select! {
            biased;
            begun = polls.begun() => begun,
            () = polls.forbidden() => !polls.revoke(),
            () = sleep(self.job.policy.ttl / 3) => !polls.revoke(),
        };
        if !begins {
            handle.abort();
        }
        begins
    }

    async fn watch_tries(&self, first_try: TryTask) -> Ending {
        let begun = Instant::now();
        let mut timeout = pin!(sleep_or_never(self.job.policy.timeout));
        let mut overrun = pin!(self.report_overrun());
        let mut failed_tries = Vec::new();
        let (mut run, mut this_try) = (self.run.clone(), first_try);
        loop {
            let left = self.job.policy.timeout.map(|timeout| timeout.saturating_sub(begun.elapsed()));
            let TryResult { outcome, error, stopped_by, returned_after } =
                self.watch_try(&run, this_try, timeout.as_mut(), overrun.as_mut()).await;
            if returned_after.zip(left).is_some_and(|(took, left)| took > left) {
                // It could not be cancelled at its timeout. What it returned does not count: a caller who
                // sets a timeout relies on it.
                run.cancel();
                self.emit(EventKind::ReturnedAfterTimeout(self.run.id()));
                return self.ending(RunOutcome::TimedOut, Some(returned_after_timeout(error)), failed_tries);
            }
            let retry = run.retry() + 1;
            let failed = matches!(outcome, RunOutcome::Failed | RunOutcome::Panicked);
            if !failed || retry > self.job.policy.retries || self.validity.is_lost() {
                return self.ending(outcome, error, failed_tries);
            }
            if let Some(stopped_by) = stopped_by {
                return self.ending(stopped_by, error, failed_tries);
            }
            if self.is_committed().await {
                // Another try could only repeat what is outside of the transaction.
                return self.ending(RunOutcome::Committed, error, failed_tries);
            }
            let pause = retry::pause(self.job.policy.retry_delay, retry);
            let text = error.clone().unwrap_or_default();
            let (id, at) = (self.run.id(), self.server.time.now());
            if !self.server.shutting_down.is_raised() {
                self.emit(EventKind::Retrying { run: id, retry, error: text.clone(), pause });
            }
            let stopped_by = tokio::select! {
                biased;
                () = self.validity.lost() => Some(RunOutcome::LeaseLost),
                // The remaining tries are left to another server.
                () = self.server.shutting_down.raised() => Some(RunOutcome::Cancelled),
                () = self.cancel_requested.raised() => Some(RunOutcome::Cancelled),
                () = &mut timeout => Some(RunOutcome::TimedOut),
                () = sleep(pause) => None,
            };
            if let Some(outcome) = stopped_by {
                run.cancel();
                return self.ending(outcome, error, failed_tries);
            }
            run = run.next_try();
            this_try = self.start_try(&run, PollTracker::default());
            if !self.begins(&this_try).await {
                // The application is blocked: the remaining tries are left to another server, as above.
                run.cancel();
                return self.ending(RunOutcome::Cancelled, error, failed_tries);
            }
            failed_tries.push(FailedTry { number: retry, at, error: text });
            if failed_tries.len() > KEPT_TRIES {
                failed_tries.remove(0);
            }
        }
    }

    /// Watches over one try, and cancels it when the run must end.
    async fn watch_try(
        &self,
        run: &Run,
        TryTask { handle: mut task, polls }: TryTask,
        mut timeout: Pin<&mut impl Future<Output = ()>>,
        mut overrun: Pin<&mut impl Future<Output = Infallible>>,
    ) -> TryResult {
        let mut unleased = None;
        let mut blocked = pin!(self.report_blocked(&polls));
        loop {
            let stopped_by = tokio::select! {
                biased;
                // First: what has returned is not cancelled.
                joined = &mut task => {
                    if joined.as_ref().is_err_and(JoinError::is_cancelled) {
                        self.server.fail("the application's runtime, on which jobs run, has ended");
                    }
                    let result = TryResult::of(joined, None);
                    if result.outcome == RunOutcome::LeaseLost {
                        run.cancel(); // the try noticed the loss itself
                    }
                    return result;
                }
                () = self.validity.lost(), if unleased.is_none() => RunOutcome::LeaseLost,
                () = self.server.cancel_runs.raised() => RunOutcome::Cancelled,
                () = self.cancel_requested.raised() => RunOutcome::Cancelled,
                () = &mut timeout => RunOutcome::TimedOut,
                never = &mut overrun => match never {},
                never = &mut blocked => match never {},
            };
            run.cancel();
            if stopped_by == RunOutcome::LeaseLost {
                unleased = Some(UnleasedRun::new(&self.job));
                if self.job.policy.on_lost == OnLost::Continue {
                    continue;
                }
            }
            task.abort();
            if is_planted(PlantedBug::ReleasesBeforeGone) {
                let (outcome, stopped_by) = (stopped_by, Some(stopped_by));
                return TryResult { outcome, error: None, stopped_by, returned_after: None };
            }
            return TryResult::of(self.gone(task, &polls, unleased).await, Some(stopped_by));
        }
    }

    /// Waits until a cancelled try is gone. One that blocks may outlive its lease.
    async fn gone(
        &self,
        mut task: SpawnedTask<TryResult>,
        polls: &PollTracker,
        mut unleased: Option<UnleasedRun<'_>>,
    ) -> Result<TryResult, JoinError> {
        let mut blocked = pin!(self.report_blocked(polls));
        loop {
            tokio::select! {
                biased;
                joined = &mut task => return joined,
                () = self.validity.lost(), if unleased.is_none() => unleased = Some(UnleasedRun::new(&self.job)),
                never = &mut blocked => match never {},
            }
        }
    }

    /// Reports a function that blocks, once. Never completes: it is polled beside the function.
    async fn report_blocked(&self, polls: &PollTracker) -> Infallible {
        let ttl = self.job.policy.ttl;
        loop {
            sleep(ttl).await;
            if polls.in_progress_for().is_some_and(|blocked| blocked >= ttl) {
                self.emit(EventKind::RunBlocked(self.run.id()));
                std::future::pending::<()>().await;
            }
        }
    }

    /// Reports a run that takes longer than usual, once. Never completes.
    async fn report_overrun(&self) -> Infallible {
        if let Some(usual) = self.usual_duration {
            sleep((usual * 2).max(SHORTEST_OVERRUN)).await;
            self.emit(EventKind::Overrun { run: self.run.id(), usual });
        }
        std::future::pending().await
    }

    /// Reports an event in the span of the run, so that its trace shows retries and warnings, too.
    fn emit(&self, kind: EventKind) {
        self.span.get().in_scope(|| self.server.emit(Some(&self.job), kind));
    }

    fn ending(&self, outcome: RunOutcome, error: Option<String>, failed_tries: Vec<FailedTry>) -> Ending {
        Ending {
            outcome,
            error,
            failed_tries,
            log: self.span.log_tail(),
            remember: self.server.history_limit,
            done_for: None,
            finish_called: self.run.finish_called(),
        }
    }
}

async fn sleep_or_never(duration: Option<Duration>) {
    match duration {
        Some(duration) => sleep(duration).await,
        None => std::future::pending().await,
    }
}

fn returned_after_timeout(error: Option<String>) -> String {
    let remedy = "returned after its timeout, because it did not reach an `await` in time; move blocking code to \
                  `tokio::task::spawn_blocking`";
    match error {
        None => remedy.to_owned(),
        Some(error) => cut(&format!("{remedy}. Its own error: {error}")),
    }
}
