//! The tracing span of a run, and the log line that closes it, as a real subscriber sees them.

use std::collections::BTreeMap;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

use super::*;
use crate::server::operate::manual_run;

#[derive(Clone, Debug, PartialEq)]
enum Value {
    Text(String),
    Number(i128),
}

type Fields = BTreeMap<String, Value>;

fn text(text: &str) -> Value {
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
    /// The spans named "run".
    runs: Vec<(Id, Fields)>,
    /// Each event, with the id of the span it was emitted in.
    events: Vec<(Option<Id>, Fields)>,
}

#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Trace>>);

impl<S: tracing::Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Recorder {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, _: Context<'_, S>) {
        if attributes.metadata().name() == "run" {
            let mut fields = FieldVisitor::default();
            attributes.record(&mut fields);
            self.0.lock().unwrap().runs.push((id.clone(), fields.0));
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Context<'_, S>) {
        let mut recorded = FieldVisitor::default();
        values.record(&mut recorded);
        let mut trace = self.0.lock().unwrap();
        // Ids are used again: the newest span with this id is meant.
        if let Some((_, fields)) = trace.runs.iter_mut().rev().find(|(run, _)| run == id) {
            fields.append(&mut recorded.0);
        }
    }

    fn on_event(&self, event: &tracing::Event<'_>, context: Context<'_, S>) {
        let mut fields = FieldVisitor::default();
        event.record(&mut fields);
        let span = context.event_span(event).map(|span| span.id());
        self.0.lock().unwrap().events.push((span, fields.0));
    }
}

impl Recorder {
    fn start() -> (Self, tracing::subscriber::DefaultGuard) {
        let recorder = Self::default();
        let subscriber = tracing_subscriber::registry().with(recorder.clone());
        (recorder, tracing::subscriber::set_default(subscriber))
    }

    fn runs(&self) -> Vec<Fields> {
        self.0.lock().unwrap().runs.iter().map(|(_, fields)| fields.clone()).collect()
    }

    /// The events with this outcome.
    fn outcomes(&self, outcome: &str) -> Vec<Fields> {
        let is_it = |fields: &Fields| fields.get("outcome") == Some(&text(outcome));
        self.0.lock().unwrap().events.iter().map(|(_, fields)| fields.clone()).filter(is_it).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn job_function_executes_in_the_span_of_its_run() {
    let (recorder, _guard) = Recorder::start();
    let clock = TestClock::new();
    let link = Link::new(clock.clone());
    let server = server("server", &link, clock);
    let logs = job("60s", 30)
        .run(|_| async {
            tracing::info!("before the await");
            seconds(1).await;
            tracing::info!("after the await");
        })
        .build()
        .unwrap();
    schedule(&server, logs);
    seconds(65).await;
    let trace = recorder.0.lock().unwrap();
    let [(id, span)] = &trace.runs[..] else { panic!("one run, one span: {:?}", trace.runs) };
    for message in ["before the await", "after the await"] {
        let of_it = |(_, fields): &&(_, Fields)| fields.get("message") == Some(&text(message));
        let (inside, _) = trace.events.iter().find(of_it).expect(message);
        assert_eq!(inside.as_ref(), Some(id), "{message}");
    }
    assert_eq!(span.get("key"), Some(&text("job")));
    assert_eq!(span.get("tick"), Some(&text("2027-01-15T12:01:00Z")));
    assert_eq!(span.get("server"), Some(&text("server")));
    assert_eq!(span.get("attempt"), Some(&Value::Number(1)));
    assert!(matches!(span.get("fence"), Some(Value::Number(1..))), "{span:?}");
}

/// Runs a job for a tick, and returns the one closing log line and the fields of the run's span.
async fn closing_line(outcome: &str, job: Job, then: impl AsyncFnOnce(&Link, &Server)) -> (Fields, Fields) {
    let (recorder, _guard) = Recorder::start();
    let clock = TestClock::new();
    let link = Link::new(clock.clone());
    let server = server("server", &link, clock);
    schedule(&server, job);
    seconds(3601).await;
    then(&link, &server).await;
    seconds(120).await;
    server.shut_down();
    let lines = recorder.outcomes(outcome);
    assert_eq!(lines.len(), 1, "{outcome}: {lines:?}");
    let runs = recorder.runs();
    assert_eq!(runs.len(), 1, "{outcome}: {runs:?}");
    (lines[0].clone(), runs[0].clone())
}

async fn assert_took_ms(outcome: &str, job: Job, took_ms: i128, then: impl AsyncFnOnce(&Link, &Server)) {
    let (line, span) = closing_line(outcome, job, then).await;
    for fields in [&line, &span] {
        assert_eq!(fields.get("took_ms"), Some(&Value::Number(took_ms)), "{outcome}: {fields:?}");
        assert_eq!(fields.get("outcome"), Some(&text(outcome)), "{fields:?}");
    }
    assert_eq!(line.get("fence"), span.get("fence"), "{outcome}");
}

fn run_out_of_cheese() {
    panic!("out of cheese")
}

#[tokio::test(start_paused = true)]
async fn every_outcome_is_closed_with_its_duration_as_a_number() {
    let nothing = async |_: &Link, _: &Server| {};
    let succeeds = job("1h", 30).run(|_| async { seconds(10).await }).build().unwrap();
    assert_took_ms("succeeded", succeeds, 10_000, nothing).await;
    let fails = job("1h", 30)
        .run(|_| async {
            seconds(10).await;
            Err::<(), _>("no luck")
        })
        .build()
        .unwrap();
    assert_took_ms("failed", fails, 10_000, nothing).await;
    let panics = job("1h", 30)
        .run(|_| async {
            seconds(10).await;
            run_out_of_cheese();
        })
        .build()
        .unwrap();
    assert_took_ms("panicked", panics, 10_000, nothing).await;
    let endless = || {
        job("1h", 30).timeout(Duration::from_secs(20)).run(|_| std::future::pending::<()>()).build().unwrap()
    };
    assert_took_ms("timed_out", endless(), 20_000, nothing).await;
    let cancels = async |_: &Link, server: &Server| server.cancel_runs.raise();
    assert_took_ms("cancelled", endless(), 1_000, cancels).await;
    let cuts = async |link: &Link, _: &Server| link.cut.store(true, Ordering::SeqCst);
    let endless = job("1h", 30).run(|_| std::future::pending::<()>()).build().unwrap();
    assert_took_ms("lease_lost", endless, 27_000, cuts).await;
}

/// Runs a job whose function blocks its thread in real time, on the path of a manual run.
async fn record_of_blocking(blocks: Duration, timeout: Duration) -> (RunOutcome, Option<String>, Recorder) {
    let (recorder, _guard) = Recorder::start();
    let clock = TestClock::new();
    let link = Link::new(clock.clone());
    let blocking = job("24h", 30)
        .timeout(timeout)
        .run(move |_| async move { std::thread::sleep(blocks) })
        .build()
        .unwrap();
    let setup = ServerConfig { jobs: vec![blocking], ..setup("server", &link, clock) };
    let server = Arc::new(Server::new(setup));
    let job = server.jobs["job"].clone();
    manual_run::run_here(&server, &job, "operator".into()).await.unwrap();
    let record = link.history("job").await.runs.remove(0);
    (record.outcome, record.error, recorder)
}

#[tokio::test]
async fn blocking_run_that_returns_after_its_timeout_is_recorded_as_timed_out() {
    let (short, long) = (Duration::from_millis(100), Duration::from_millis(300));
    let (outcome, error, recorder) = record_of_blocking(long, short).await;
    assert_eq!(outcome, RunOutcome::TimedOut);
    assert!(error.as_ref().is_some_and(|error| error.contains("spawn_blocking")), "{error:?}");
    let warnings = recorder.outcomes("returned_after_timeout");
    let [warning] = &warnings[..] else { panic!("one warning: {warnings:?}") };
    assert!(format!("{warning:?}").contains("spawn_blocking"), "{warning:?}");
    let [closing] = &recorder.outcomes("timed_out")[..] else { panic!("one closing line") };
    assert!(matches!(closing.get("took_ms"), Some(Value::Number(300..))), "{closing:?}");
}

#[tokio::test]
async fn blocking_run_that_returns_within_its_timeout_is_recorded_as_succeeded() {
    let (outcome, error, recorder) =
        record_of_blocking(Duration::from_millis(100), Duration::from_secs(60)).await;
    assert_eq!((outcome, error), (RunOutcome::Succeeded, None));
    assert!(recorder.outcomes("returned_after_timeout").is_empty());
}
