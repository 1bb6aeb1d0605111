//! Pausing and resuming jobs.

use std::future::IntoFuture;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::ASK_WITHIN;
use crate::fleet::{ActionKind, Pause};
use crate::server::error::OperateError;
use crate::server::handle::Jobs;
use crate::store::PauseOrder;
use crate::util::duration::IntoDuration;

/// Characters of a reason: each skip record has it.
const LONGEST_REASON: usize = 500;

/// A pause that is about to be set: [`Jobs::pause`]. Await it.
///
/// ```
/// # async fn pause(jobs: jobs::Jobs) -> Result<(), jobs::OperateError> {
/// let pause = jobs.by("anna").pause("import-products").reason("the supplier is down").lasting("2h").await?;
/// println!("paused until {:?}", pause.until);
/// # Ok(()) }
/// ```
#[derive(Clone)]
#[must_use = "the job is paused when this is awaited"]
pub struct Pausing {
    jobs: Jobs,
    key: String,
    reason: Option<Arc<str>>,
    lasts: Result<Option<Duration>, String>,
}

impl Pausing {
    /// Sets the reason, of up to 500 characters: it is shown wherever the pause is.
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        let reason: String = reason.into();
        self.reason = Some(reason.chars().take(LONGEST_REASON).collect::<String>().into());
        self
    }

    /// Resumes the job by itself after this time: `"2h"`, for example.
    pub fn lasting(mut self, duration: impl IntoDuration) -> Self {
        let is_long_enough = |duration: Duration| {
            if duration.is_zero() { Err("must be longer than zero".to_owned()) } else { Ok(Some(duration)) }
        };
        self.lasts = duration.into_duration().and_then(is_long_enough);
        self
    }

    fn order(&self, all: bool) -> Result<PauseOrder, OperateError> {
        let lasts =
            self.lasts.clone().map_err(|problem| OperateError::Invalid { setting: "lasting", problem })?;
        Ok(PauseOrder { by: self.jobs.actor(), reason: self.reason.clone(), lasts, all })
    }
}

impl IntoFuture for Pausing {
    type Output = Result<Pause, OperateError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let order = self.order(false)?;
            self.jobs.must_be_known(&self.key).await?;
            let key = self.key.clone();
            let pause = self.jobs.ask(|server| async move {
                server.requests(ASK_WITHIN).pause(&key, &order, server.history_limit).await
            });
            let pause = pause.await?;
            self.jobs.note_action(ActionKind::Pause, Some(&self.key), pause.reason.clone()).await;
            Ok(pause)
        })
    }
}

/// A pause of all jobs that is about to be set: [`Jobs::pause_all`]. Await it for the keys of the jobs that are paused now.
#[derive(Clone)]
#[must_use = "the jobs are paused when this is awaited"]
pub struct PausingAll(Pausing);

impl PausingAll {
    /// Sets the reason: it is shown wherever the pause is.
    pub fn reason(self, reason: impl Into<String>) -> Self {
        Self(self.0.reason(reason))
    }

    /// Resumes the jobs by themselves after this time: `"2h"`, for example.
    pub fn lasting(self, duration: impl IntoDuration) -> Self {
        Self(self.0.lasting(duration))
    }
}

impl IntoFuture for PausingAll {
    type Output = Result<Vec<String>, OperateError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let Self(pausing) = self;
            let (jobs, order) = (pausing.jobs.clone(), pausing.order(true)?);
            // First the pause of all, then the list: a server that starts meanwhile either sees the pause or is in the list.
            let fleet_order = order.clone();
            jobs.ask(|server| async move { server.requests(ASK_WITHIN).pause_fleet(&fleet_order).await })
                .await?;
            let (mut paused, mut first_error) = (Vec::new(), None);
            for key in jobs.known_jobs().await? {
                let (name, order) = (key.clone(), order.clone());
                let pausing = jobs.ask(|server| async move {
                    server.requests(ASK_WITHIN).pause(&name, &order, server.history_limit).await
                });
                match pausing.await {
                    Ok(_) => paused.push(key),
                    // One that cannot be read does not keep the others from being paused.
                    Err(error) => first_error = first_error.or(Some(error)),
                }
            }
            jobs.note_action(ActionKind::Pause, None, order.reason).await;
            first_error.map_or(Ok(paused), Err)
        })
    }
}

impl Jobs {
    /// Makes every server skip the job's ticks until the pause is over or the job is [resumed](Jobs::resume). The current run
    /// continues, and [manual runs](Jobs::run_now) can still start. Pausing a paused job replaces the reason and the end.
    pub fn pause(&self, key: &str) -> Pausing {
        Pausing { jobs: self.clone(), key: key.to_owned(), reason: None, lasts: Ok(None) }
    }

    /// Pauses all jobs of the store and namespace, and jobs that are deployed meanwhile, until the pause is over or
    /// [all are resumed](Jobs::resume_all). A job that was paused alone before keeps its own pause.
    pub fn pause_all(&self) -> PausingAll {
        PausingAll(self.pause(""))
    }

    /// Lets the job's ticks run again. Returns the pause that ends; `None` if the job was not paused. Ticks that passed meanwhile
    /// were skipped, and do not run now; if no server was there to skip them, the next run reports them as
    /// [missed](crate::events::EventKind::Missed).
    pub async fn resume(&self, key: &str) -> Result<Option<Pause>, OperateError> {
        self.must_be_known(key).await?;
        let ended = self.resume_one(key, false).await?;
        if ended.is_some() {
            self.note_action(ActionKind::Resume, Some(key), None).await;
        }
        Ok(ended)
    }

    /// Ends the [pause of all jobs](Jobs::pause_all). Returns the keys of the jobs that are resumed. Jobs that were paused alone
    /// stay paused.
    pub async fn resume_all(&self) -> Result<Vec<String>, OperateError> {
        self.ask(|server| async move { server.requests(ASK_WITHIN).resume_fleet().await }).await?;
        let (mut resumed, mut first_error) = (Vec::new(), None);
        for key in self.known_jobs().await? {
            match self.resume_one(&key, true).await {
                Ok(ended) => resumed.extend(ended.map(|_| key)),
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        self.note_action(ActionKind::Resume, None, None).await;
        first_error.map_or(Ok(resumed), Err)
    }

    async fn resume_one(&self, key: &str, all: bool) -> Result<Option<Pause>, OperateError> {
        let (key, by) = (key.to_owned(), self.actor());
        let resuming = self.ask(|server| async move {
            server.requests(ASK_WITHIN).resume(&key, &by, all, server.history_limit).await
        });
        resuming.await
    }
}
