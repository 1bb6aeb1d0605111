//! The calls of the SQL functions, their arguments in the order of the functions' heads.

use std::time::Duration;

use singleton_jobs_policy::{Missed, Overlap};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error};

use super::super::model::FORMAT;
use super::super::{Announcement, Claim, Ending, Lease, RunRequest, What};
use crate::Timestamp;

/// One call of a function, which is one step.
pub(super) struct Call<'a> {
    function: &'static str,
    arguments: Vec<(Box<dyn ToSql + Sync + Send + 'a>, Type)>,
}

impl<'a> Call<'a> {
    pub(super) fn new(function: &'static str) -> Self {
        Self { function, arguments: Vec::new() }
    }

    /// A step on one job: the functions that read its state are told which format the caller knows.
    pub(super) fn of_job(function: &'static str, namespace: &'a str, key: &'a str) -> Self {
        Self::new(function).text(namespace).text(key).format()
    }

    pub(super) fn format(self) -> Self {
        self.with(i32::try_from(FORMAT).unwrap_or(i32::MAX), Type::INT4)
    }

    pub(super) fn text(self, text: impl ToSql + Sync + Send + 'a) -> Self {
        self.with(text, Type::TEXT)
    }

    pub(super) fn number(self, number: impl Into<Option<i64>>) -> Self {
        self.with(number.into(), Type::INT8)
    }

    pub(super) fn flag(self, set: bool) -> Self {
        self.with(set, Type::BOOL)
    }

    pub(super) fn duration(self, duration: Duration) -> Self {
        self.number(micros(duration))
    }

    fn with(mut self, value: impl ToSql + Sync + Send + 'a, sql_type: Type) -> Self {
        self.arguments.push((Box::new(value), sql_type));
        self
    }

    pub(super) fn claim(self, claim: &'a Claim) -> Self {
        let Claim { token, server, ttl, what, remember, waits } = claim;
        let call = self.text(&**token).text(&**server).duration(*ttl).number(count(*remember)).flag(*waits);
        let (what, request, ask) = match what {
            What::Now => ("now", None, None),
            What::Requested(id) => ("requested", Some(id), None),
            What::Tick(ask) => ("tick", None, Some(ask)),
            _ => (what.kind().as_str(), None, None),
        };
        call.text(what)
            .text(request)
            .number(ask.map(|ask| ask.tick.as_micros()))
            .number(ask.map(|ask| micros(ask.delay)))
            .number(ask.map(|ask| micros(ask.grace)))
            .flag(ask.is_some_and(|ask| ask.overlap == Overlap::Skip))
            .number(ask.map(|ask| i64::from(ask.takeovers)))
            .flag(ask.is_some_and(|ask| ask.missed == Missed::RunOnce))
            .text(ask.map(|ask| &*ask.schedule))
            .number(ask.map(|ask| micros(ask.known_for)))
    }

    pub(super) fn slot_claim(self, claim: &'a Claim, of: u32) -> Self {
        let Claim { token, server, ttl, waits, .. } = claim;
        self.text(&**token).text(&**server).duration(*ttl).number(i64::from(of)).flag(*waits)
    }

    pub(super) fn lease(self, lease: &'a Lease) -> Self {
        self.text(&*lease.token)
            .text(&*lease.server)
            .duration(lease.ttl)
            .text(lease.kind.as_str())
            .number(lease.tick.map(Timestamp::as_micros))
            .number(i64::from(lease.attempt))
            .number(lease.fence)
            .number(lease.since.as_micros())
            .number(lease.until.as_micros())
            .text(serde_json::json!(lease.progress).to_string())
    }

    pub(super) fn slot(self, lease: &'a Lease, of: u32) -> Self {
        self.text(&*lease.token)
            .text(&*lease.server)
            .duration(lease.ttl)
            .number(i64::from(of))
            .number(lease.fence)
            .number(lease.since.as_micros())
            .number(lease.until.as_micros())
    }

    pub(super) fn ending(self, end: &'a Ending) -> Self {
        self.text(end.outcome.as_str())
            .flag(end.outcome.is_finished())
            .flag(end.outcome.is_failure())
            .text(serde_json::json!(end.error).to_string())
            .text(serde_json::json!(end.failed_tries).to_string())
            .number(count(end.remember))
            .number(end.done_for.map(micros))
    }

    pub(super) fn remember(self, records: usize) -> Self {
        self.number(count(records))
    }

    pub(super) fn request(self, request: &'a RunRequest) -> Self {
        self.text(&request.id).text(&request.by).duration(request.ttl)
    }

    pub(super) fn announcement(self, announcement: &'a Announcement) -> Self {
        let Announcement { server, about, ttl } = announcement;
        self.text(server).text(about.as_ref()).duration(*ttl)
    }

    /// Sends it as one unnamed statement, so that any connection of a pooler will do.
    ///
    /// The answer is there only when the server has committed: an error at the very end counts.
    pub(super) async fn send(&self, client: &Client, schema: &str) -> Result<Option<String>, Error> {
        let places: Vec<_> = (1..=self.arguments.len()).map(|place| format!("${place}")).collect();
        let statement = format!("SELECT \"{schema}\".{}({})", self.function, places.join(", "));
        let arguments: Vec<_> = self
            .arguments
            .iter()
            .map(|(value, sql_type)| (&**value as &(dyn ToSql + Sync), sql_type.clone()))
            .collect();
        let rows = client.query_typed(&statement, &arguments).await?;
        rows.first().map(|row| row.try_get(0)).transpose()
    }
}

/// An instant of today plus a few of these stays within 64 bits.
const LONGEST: Duration = Duration::from_secs(10_000 * 365 * 86_400);

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.min(LONGEST).as_micros()).unwrap_or(i64::MAX)
}

fn count(records: usize) -> i64 {
    i64::try_from(records).unwrap_or(i64::MAX)
}
