//! The span of a run: the root of its trace.

use tracing::{Span, field, info_span};

use super::log::millis;
use crate::Run;
use crate::history::{RunOutcome, RunRecord};

/// The span of a run, from its claim to the end of its last try. The job's function executes in it.
///
/// Fields that begin with `otel.` are those that `tracing-opentelemetry` reads. The kind is internal, as that of other
/// schedulers: no message is consumed, and no other span waits for the run.
pub(crate) struct RunSpan {
    span: Span,
    /// Its last lines, if the application has added a layer that collects them.
    #[cfg(feature = "log-tail")]
    log: Option<std::sync::Arc<super::log_tail::RunLog>>,
}

impl RunSpan {
    #[cfg(not(feature = "log-tail"))]
    pub(crate) fn open(run: &Run) -> Self {
        Self { span: open(run) }
    }

    #[cfg(feature = "log-tail")]
    pub(crate) fn open(run: &Run) -> Self {
        let (span, log) = super::log_tail::RunLog::of_span(|| open(run));
        Self { span, log }
    }

    pub(crate) fn get(&self) -> &Span {
        &self.span
    }

    /// The last lines that were logged in the span, if they are collected.
    #[cfg(not(feature = "log-tail"))]
    #[allow(clippy::unused_self, reason = "no layer can collect lines without the feature")]
    pub(crate) fn log_tail(&self) -> Option<String> {
        None
    }

    /// The last lines that were logged in the span, if they are collected.
    #[cfg(feature = "log-tail")]
    pub(crate) fn log_tail(&self) -> Option<String> {
        self.log.as_ref()?.text()
    }

    /// Records the end of the run and leaves the span: it closes when the spans in it have closed.
    ///
    /// The status of a success stays unset, which leaves it to the application.
    pub(crate) fn close(&mut self, record: &RunRecord) {
        let span = std::mem::replace(&mut self.span, Span::none());
        let outcome = record.outcome.as_str();
        span.record("outcome", outcome);
        span.record("took_ms", millis(record.duration()));
        if !matches!(record.outcome, RunOutcome::Succeeded | RunOutcome::Committed | RunOutcome::NotStarted) {
            span.record("error.type", outcome);
            span.record("otel.status_code", "ERROR");
            span.record("otel.status_description", record.error.as_deref().unwrap_or(outcome));
        }
    }
}

fn open(run: &Run) -> Span {
    info_span!(
        target: "jobs",
        parent: None,
        "run",
        otel.name = %format_args!("run {}", run.key()),
        otel.kind = "internal",
        job = run.key(),
        tick = run.tick().map(field::display),
        fence = run.fence(),
        attempt = i64::from(run.attempt()),
        server = run.server(),
        outcome = field::Empty,
        took_ms = field::Empty,
        error.type = field::Empty,
        otel.status_code = field::Empty,
        otel.status_description = field::Empty,
    )
}
