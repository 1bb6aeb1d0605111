//! The tracing span of a run, and the log line that closes it, as a real subscriber sees them.

use super::*;
use crate::history::RunRecord;
use crate::server::operate::manual_run;
use recorder::{Fields, LogEvent, Recorder, Value, text};

mod recorder;

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
            let page = tracing::info_span!("page", number = 1);
            page.in_scope(|| tracing::info!("in a span of its own"));
        })
        .build()
        .unwrap();
    let _other = tracing::info_span!("of the application").entered();
    schedule(&server, logs);
    seconds(65).await;
    let run = recorder.only_run();
    assert!(run.is_root && run.is_closed, "{run:?}");
    for message in ["before the await", "after the await", "in a span of its own"] {
        let [event] = &recorder.events("message", message)[..] else { panic!("{message}") };
        assert_eq!(event.root.as_ref(), Some(&run.id), "{message}");
    }
    let span = run.fields;
    assert_eq!(span.get("job"), Some(&text("job")));
    assert_eq!(span.get("otel.name"), Some(&text("run job")));
    assert_eq!(span.get("otel.kind"), Some(&text("internal")));
    assert_eq!(span.get("tick"), Some(&text("2027-01-15T12:01:00Z")));
    assert_eq!(span.get("server"), Some(&text("server")));
    assert_eq!(span.get("attempt"), Some(&Value::Number(1)));
    assert!(matches!(span.get("fence"), Some(Value::Number(1..))), "{span:?}");
}

#[tokio::test(start_paused = true)]
async fn each_retry_is_an_event_in_the_span_of_its_run() {
    let (recorder, _guard) = Recorder::start();
    let clock = TestClock::new();
    let link = Link::new(clock.clone());
    let server = server("server", &link, clock);
    let fails_twice = job("60s", 30)
        .retries(2, "1s")
        .run(|run| async move { if run.retry() < 2 { Err("no luck") } else { Ok(()) } })
        .build()
        .unwrap();
    schedule(&server, fails_twice);
    seconds(100).await;
    let run = recorder.only_run();
    assert_eq!(run.fields.get("outcome"), Some(&text("succeeded")));
    assert_eq!(run.fields.get("error.type"), None);
    let retries = recorder.events("outcome", "retrying");
    assert_eq!(retries.len(), 2, "{retries:?}");
    for (event, number) in retries.iter().zip(1..) {
        assert_eq!(event.root.as_ref(), Some(&run.id), "{event:?}");
        assert_eq!(event.fields.get("retry"), Some(&Value::Number(number)), "{event:?}");
        assert_eq!(event.fields.get("error"), Some(&text("no luck")), "{event:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn server_that_loses_a_tick_opens_no_span_and_logs_at_debug_level_only() {
    let (recorder, _guard) = Recorder::start();
    let clock = TestClock::new();
    let link = Link::new(clock.clone());
    let servers = ["one", "two", "three"].map(|name| server(name, &link, clock.clone()));
    for server in &servers {
        schedule(server, job("60s", 30).run(|_| seconds(1)).build().unwrap());
    }
    seconds(65).await;
    let run = recorder.only_run();
    let lines_of = |name: &str| recorder.events("server", name);
    let is_loud = |event: &&LogEvent| event.level < tracing::Level::DEBUG;
    for server in &servers {
        let (lines, has_won) = (lines_of(&server.id), run.fields.get("server") == Some(&text(&server.id)));
        assert_eq!(lines.iter().filter(is_loud).count(), usize::from(has_won), "{lines:?}");
        let lost = lines.iter().filter(|event| event.fields.get("outcome") == Some(&text("taken")));
        assert_eq!(lost.count(), usize::from(!has_won), "{lines:?}");
    }
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
    let run = recorder.only_run();
    assert!(run.is_closed, "{outcome}: while the release still waits for the store, too");
    (lines[0].clone(), run.fields)
}

async fn assert_took_ms(outcome: &str, job: Job, took_ms: i128, then: impl AsyncFnOnce(&Link, &Server)) {
    let (line, span) = closing_line(outcome, job, then).await;
    for fields in [&line, &span] {
        assert_eq!(fields.get("took_ms"), Some(&Value::Number(took_ms)), "{outcome}: {fields:?}");
        assert_eq!(fields.get("outcome"), Some(&text(outcome)), "{fields:?}");
    }
    assert_eq!(line.get("fence"), span.get("fence"), "{outcome}");
    let failed = (outcome != "succeeded").then(|| text(outcome));
    assert_eq!(span.get("error.type"), failed.as_ref());
    assert_eq!(span.get("otel.status_code"), failed.as_ref().map(|_| text("ERROR")).as_ref());
    let description = line.get("error").cloned().or(failed);
    assert_eq!(span.get("otel.status_description"), description.as_ref());
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
async fn record_of_blocking(blocks: Duration, timeout: Duration) -> (RunRecord, Recorder) {
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
    (record, recorder)
}

#[tokio::test]
async fn blocking_run_that_returns_after_its_timeout_is_recorded_as_timed_out() {
    let (short, long) = (Duration::from_millis(100), Duration::from_millis(300));
    let begun = std::time::Instant::now();
    let (RunRecord { outcome, error, .. }, recorder) = record_of_blocking(long, short).await;
    let call = begun.elapsed();
    assert_eq!(outcome, RunOutcome::TimedOut);
    assert!(error.as_ref().is_some_and(|error| error.contains("spawn_blocking")), "{error:?}");
    let warnings = recorder.outcomes("returned_after_timeout");
    let [warning] = &warnings[..] else { panic!("one warning: {warnings:?}") };
    assert!(format!("{warning:?}").contains("spawn_blocking"), "{warning:?}");
    let [closing] = &recorder.outcomes("timed_out")[..] else { panic!("one closing line") };
    let Some(Value::Number(took_ms)) = closing.get("took_ms") else { panic!("{closing:?}") };
    // A server's estimate of the store's time is a lower bound: it lacks the time that the store's answers took to
    // arrive. On a busy machine that is some of the time in which the function did not block.
    let (long, idle) = (long.as_millis().cast_signed(), call.saturating_sub(long).as_millis().cast_signed());
    assert!((long - idle - 1..=long + idle).contains(took_ms), "took {took_ms} ms of {call:?}");
}

#[tokio::test]
async fn blocking_run_that_returns_within_its_timeout_is_recorded_as_succeeded() {
    let (RunRecord { outcome, error, .. }, recorder) =
        record_of_blocking(Duration::from_millis(100), Duration::from_secs(60)).await;
    assert_eq!((outcome, error), (RunOutcome::Succeeded, None));
    assert!(recorder.outcomes("returned_after_timeout").is_empty());
}
