//! Building a job at run time.

use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use singleton_jobs_policy::{Missed, OnCrash, OnLost, Overlap, Policy, Problem, Schedule};

use super::hooks::{EndedRun, HookCall, JobHooks, OverdueTick};
use super::outcome::IntoOutcome;
use super::parameters::States;
use super::registry::JobFuture;
use super::{Job, JobActivity, JobFunction};
use crate::util::duration::IntoDuration;
use crate::{JobProblem, Run};

/// The settings of a job, and its function once [`run`](JobBuilder::run) was called.
///
/// The methods are the attribute's arguments, except that [`every_in`](JobBuilder::every_in) is `every` with
/// `tz`, [`retries`](JobBuilder::retries) takes `retry_delay`, too, and
/// [`retry_on_crash`](JobBuilder::retry_on_crash) is `on_crash = "retry"` with `takeovers`. A duration is a
/// text such as `"10s"`, or a [`Duration`]. Mistakes are reported by [`build`](JobBuilder::build), all of
/// them.
#[derive(Clone)]
#[must_use = "a job is complete with `run` and `build`"]
pub struct JobBuilder<F = NoFunction> {
    policy: Policy,
    description: String,
    place: String,
    problems: Vec<Problem>,
    hooks: JobHooks,
    function: F,
}

/// A builder without a function: call [`run`](JobBuilder::run).
#[derive(Clone, Copy, Debug)]
pub struct NoFunction;

/// A builder with a function: call [`build`](JobBuilder::build).
#[derive(Clone)]
pub struct WithFunction(JobFunction);

impl JobBuilder {
    pub(super) fn new(key: String, place: &Location<'_>) -> Self {
        Self {
            policy: Policy::new(key),
            description: String::new(),
            place: place.to_string(),
            problems: Vec::new(),
            hooks: JobHooks::default(),
            function: NoFunction,
        }
    }

    /// Sets the function of the job. A closure that captures something is `move |run| async move { … }`.
    pub fn run<F, Fut>(self, function: F) -> JobBuilder<WithFunction>
    where
        F: Fn(Run) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: IntoOutcome> + Send + 'static,
    {
        let call = move |run: &Run, _: &States| -> JobFuture {
            let future = function(run.clone());
            Box::pin(async move { future.await.into_outcome() })
        };
        let Self { policy, description, place, problems, hooks, function: NoFunction } = self;
        let function = WithFunction(Arc::new(call));
        JobBuilder { policy, description, place, problems, hooks, function }
    }
}

impl JobBuilder<WithFunction> {
    /// Checks the settings and completes the job. The error names everything that is wrong with them.
    pub fn build(self) -> Result<Job, JobProblem> {
        let unread: Vec<_> = self.problems.iter().map(|problem| problem.argument).collect();
        let broken_rules = self.policy.problems_without(&unread);
        let messages: Vec<_> =
            self.problems.iter().chain(&broken_rules).map(|problem| problem.message.as_str()).collect();
        if messages.is_empty() {
            return Ok(self.build_unchecked());
        }
        Err(JobProblem { key: self.policy.key, place: self.place, message: messages.join("; ") })
    }

    pub(crate) fn build_unchecked(self) -> Job {
        Job {
            policy: self.policy,
            description: self.description,
            place: self.place,
            needs: Vec::new(),
            call: self.function.0,
            hooks: self.hooks,
            activity: JobActivity::default(),
        }
    }
}

impl<F> JobBuilder<F> {
    /// When the job is due, in UTC: cron, a nickname, or an interval.
    pub fn every(self, schedule: impl AsRef<str>) -> Self {
        self.schedule(schedule.as_ref(), None)
    }

    /// When the job is due, by the wall clock of an IANA time zone.
    pub fn every_in(self, schedule: impl AsRef<str>, tz: impl AsRef<str>) -> Self {
        self.schedule(schedule.as_ref(), Some(tz.as_ref()))
    }

    fn schedule(mut self, schedule: &str, tz: Option<&str>) -> Self {
        match Schedule::parse(schedule, tz) {
            Ok(schedule) => self.policy.schedule = Some(schedule),
            Err(error) => {
                self.problems.push(Problem { argument: error.argument(), message: error.to_string() });
            }
        }
        self
    }

    /// How long a lease lasts without an extension: how long a crash blocks the job. 60 s by default.
    pub fn ttl(self, ttl: impl IntoDuration) -> Self {
        self.duration("ttl", ttl, |policy, ttl| policy.ttl = ttl)
    }

    /// Cancels a run that takes longer, with all its tries.
    ///
    /// The function is dropped at its next `await`. One that blocks until it returns is recorded as timed
    /// out, too, whatever it returned: run blocking code with `tokio::task::spawn_blocking`.
    pub fn timeout(self, timeout: impl IntoDuration) -> Self {
        self.duration("timeout", timeout, |policy, timeout| policy.timeout = Some(timeout))
    }

    /// Retries a failed run under the same lease this many times, after a pause that grows from `delay`.
    pub fn retries(mut self, retries: u32, delay: impl IntoDuration) -> Self {
        self.policy.retries = retries;
        self.duration("retry_delay", delay, |policy, delay| policy.retry_delay = delay)
    }

    /// What happens to a tick that is due while the previous run is in progress.
    pub fn overlap(mut self, overlap: Overlap) -> Self {
        self.policy.overlap = overlap;
        self
    }

    /// What happens to ticks that passed while no server or no store was available.
    pub fn missed(mut self, missed: Missed) -> Self {
        self.policy.missed = missed;
        self
    }

    /// Lets another server take over a tick whose run did not finish, at most this many times.
    pub fn retry_on_crash(mut self, takeovers: u32) -> Self {
        self.policy.on_crash = OnCrash::Retry;
        self.policy.takeovers = takeovers;
        self
    }

    /// How late a tick may still start.
    pub fn grace(self, grace: impl IntoDuration) -> Self {
        self.duration("grace", grace, |policy, grace| policy.grace = Some(grace))
    }

    /// Delays each start by an amount below this, the same on all servers.
    pub fn jitter(self, jitter: impl IntoDuration) -> Self {
        self.duration("jitter", jitter, |policy, jitter| policy.jitter = Some(jitter))
    }

    /// Whether the lease is extended during a run. It is, by default.
    pub fn keep_alive(mut self, keep_alive: bool) -> Self {
        self.policy.keep_alive = keep_alive;
        self
    }

    /// Pauses the job after this many failures in a row, until an operator [resumes](crate::Jobs::resume) it. The reason of the pause
    /// has the last error.
    pub fn pause_after(mut self, failures: u32) -> Self {
        self.policy.pause_after = Some(failures);
        self
    }

    /// What happens to a run whose lease is lost.
    pub fn on_lost(mut self, on_lost: OnLost) -> Self {
        self.policy.on_lost = on_lost;
        self
    }

    /// A description of the job, for the log.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = description.into();
        self
    }

    /// Calls a function after each run that succeeded: to ping a monitor, for example. See
    /// [hooks](crate::guide::operating#hooks) for what is promised of it.
    pub fn on_success<H, Fut>(mut self, hook: H) -> Self
    where
        H: Fn(EndedRun) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: IntoOutcome> + Send + 'static,
    {
        self.hooks.success = Some(Arc::new(move |run, _: &States| call(hook(run))));
        self
    }

    /// Calls a function after each run that did not succeed, when no retry is left: it failed, panicked, timed out, lost its
    /// lease or was cancelled. See [hooks](crate::guide::operating#hooks) for what is promised of it.
    pub fn on_failure<H, Fut>(mut self, hook: H) -> Self
    where
        H: Fn(EndedRun) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: IntoOutcome> + Send + 'static,
    {
        self.hooks.failure = Some(Arc::new(move |run, _: &States| call(hook(run))));
        self
    }

    /// Calls a function for each tick that is [overdue](crate::events::EventKind::Overdue), on every server that notices it.
    /// See [hooks](crate::guide::operating#hooks) for what is promised of it.
    pub fn on_overdue<H, Fut>(mut self, hook: H) -> Self
    where
        H: Fn(OverdueTick) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: IntoOutcome> + Send + 'static,
    {
        self.hooks.overdue = Some(Arc::new(move |tick, _: &States| call(hook(tick))));
        self
    }

    fn duration(
        mut self,
        argument: &'static str,
        value: impl IntoDuration,
        set: impl FnOnce(&mut Policy, Duration),
    ) -> Self {
        match value.into_duration() {
            Ok(duration) => set(&mut self.policy, duration),
            Err(why) => {
                self.problems.push(Problem { argument, message: format!("invalid `{argument}` {why}") });
            }
        }
        self
    }
}

fn call(hook: impl Future<Output: IntoOutcome> + Send + 'static) -> HookCall {
    Box::pin(async move { hook.await.into_outcome() })
}

impl<F> std::fmt::Debug for JobBuilder<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JobBuilder").field("policy", &self.policy).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(builder: JobBuilder) -> String {
        builder.run(|_| async {}).build().unwrap_err().to_string()
    }

    #[test]
    fn text_and_duration_set_the_same() {
        let text = Job::builder("job").every("5m").ttl("90s").timeout("1h").grace("2m").jitter("10s");
        let text = text.retries(3, "7s").run(|_| async {}).build().unwrap();
        let secs = Duration::from_secs;
        let typed = Job::builder("job").every(String::from("5m")).ttl(secs(90)).timeout(secs(3600));
        let typed = typed.grace(secs(120)).jitter(secs(10)).retries(3, secs(7));
        let typed = typed.run(|_| async {}).build().unwrap();
        assert_eq!(text.policy.fingerprint(), typed.policy.fingerprint());
    }

    #[test]
    fn build_names_every_mistake_with_the_key_and_the_line() {
        let line = line!() + 1;
        let builder = Job::builder("job").every("0 25 * * *").ttl("10").timeout("0s").retries(101, "5s");
        let problem = problem(builder);
        let place = format!("[job] at {}:{line}:", file!());
        assert!(problem.starts_with(&place), "{problem}");
        for mistake in ["hour 25", "invalid `ttl` \"10\"", "`timeout` must be longer", "`retries` 101"] {
            assert!(problem.contains(mistake), "{mistake}: {problem}");
        }
    }

    #[test]
    fn unreadable_setting_is_reported_once() {
        let problem = problem(Job::builder("job").every("often").jitter("10m"));
        assert_eq!(
            problem.matches("jitter").count(),
            0,
            "it is not compared with a schedule that is unknown: {problem}"
        );
    }

    #[test]
    fn invalid_key_and_time_zone_are_mistakes() {
        assert!(problem(Job::builder("")).contains("invalid `key`"));
        let elsewhere = Job::builder("job").every_in("0 3 * * *", "Europe/Atlantis");
        assert!(problem(elsewhere).contains("invalid `tz` \"Europe/Atlantis\""));
    }
}
