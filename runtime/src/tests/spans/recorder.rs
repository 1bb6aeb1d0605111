//! A subscriber that keeps the spans of runs, and all events.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex};

use tracing::Dispatch;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Text(String),
    Number(i128),
}

pub(super) type Fields = BTreeMap<String, Value>;

pub(super) fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

#[derive(Default)]
struct FieldVisitor(Fields);

impl Visit for FieldVisitor {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.insert(field.name().to_owned(), Value::Text(format!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), Value::Text(value.to_owned()));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.insert(field.name().to_owned(), Value::Number(value.into()));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.insert(field.name().to_owned(), Value::Number(value.into()));
    }
}

#[derive(Default)]
struct Trace {
    runs: Vec<RunTrace>,
    events: Vec<LogEvent>,
}

/// A span named "run".
#[derive(Clone, Debug)]
pub(super) struct RunTrace {
    pub(super) id: Id,
    pub(super) fields: Fields,
    pub(super) is_root: bool,
    pub(super) is_closed: bool,
}

#[derive(Clone, Debug)]
pub(super) struct LogEvent {
    pub(super) level: tracing::Level,
    /// The outermost span that it was emitted in.
    pub(super) root: Option<Id>,
    pub(super) fields: Fields,
}

#[derive(Clone, Default)]
pub(super) struct Recorder(Arc<Mutex<Trace>>);

impl<S: tracing::Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Recorder {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if attributes.metadata().name() == "run" {
            let mut fields = FieldVisitor::default();
            attributes.record(&mut fields);
            let is_root = context.span(id).unwrap().parent().is_none();
            let run = RunTrace { id: id.clone(), fields: fields.0, is_root, is_closed: false };
            self.0.lock().unwrap().runs.push(run);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Context<'_, S>) {
        let mut recorded = FieldVisitor::default();
        values.record(&mut recorded);
        self.change(id, |run| run.fields.append(&mut recorded.0));
    }

    fn on_close(&self, id: Id, _: Context<'_, S>) {
        self.change(&id, |run| run.is_closed = true);
    }

    fn on_event(&self, event: &tracing::Event<'_>, context: Context<'_, S>) {
        let mut fields = FieldVisitor::default();
        event.record(&mut fields);
        let root =
            context.event_scope(event).and_then(|scope| scope.from_root().next()).map(|span| span.id());
        let event = LogEvent { level: *event.metadata().level(), root, fields: fields.0 };
        self.0.lock().unwrap().events.push(event);
    }
}

impl Recorder {
    /// Records what this thread emits until the guard is dropped.
    pub(super) fn start() -> (Self, tracing::subscriber::DefaultGuard) {
        // While there is one subscriber in the process, tracing asks that of the thread which reaches an event first, and
        // another thread without one would disable the event for all threads.
        static SECOND: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(tracing_subscriber::registry()));
        LazyLock::force(&SECOND);
        let recorder = Self::default();
        let subscriber = tracing_subscriber::registry().with(recorder.clone());
        (recorder, tracing::subscriber::set_default(subscriber))
    }

    fn change(&self, id: &Id, change: impl FnOnce(&mut RunTrace)) {
        let mut trace = self.0.lock().unwrap();
        // Ids are used again: the newest span with this id is meant.
        if let Some(run) = trace.runs.iter_mut().rev().find(|run| run.id == *id) {
            change(run);
        }
    }

    pub(super) fn runs(&self) -> Vec<RunTrace> {
        self.0.lock().unwrap().runs.clone()
    }

    pub(super) fn only_run(&self) -> RunTrace {
        let runs = self.runs();
        assert_eq!(runs.len(), 1, "one run, one span: {runs:?}");
        runs[0].clone()
    }

    /// The events whose field has this value.
    pub(super) fn events(&self, field: &str, value: &str) -> Vec<LogEvent> {
        let is_it = |event: &&LogEvent| event.fields.get(field) == Some(&text(value));
        self.0.lock().unwrap().events.iter().filter(is_it).cloned().collect()
    }

    /// The events with this outcome.
    pub(super) fn outcomes(&self, outcome: &str) -> Vec<Fields> {
        self.events("outcome", outcome).into_iter().map(|event| event.fields).collect()
    }
}

#[test]
fn event_that_a_thread_without_a_subscriber_reaches_first_is_recorded() {
    let (recorder, _guard) = Recorder::start();
    let emit = || tracing::info!("reached by two threads");
    std::thread::spawn(emit).join().unwrap();
    emit();
    assert_eq!(recorder.events("message", "reached by two threads").len(), 1);
}
