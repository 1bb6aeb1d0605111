//! A job that fails is repeated, under the same lease; one that hangs is cancelled.
//!
//!     cargo run --example retries_and_timeouts

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{bail, ensure};
use jobs::events::{Event, EventKind};
use jobs::history::{RunOutcome, RunRecord};
use jobs::{Jobs, Run, RunNow, State, singleton_job};

// None of these has a schedule: this example starts them manually instead of waiting for a tick.

/// Up to four tries. The pauses between them are random: below 200 ms, below 400 ms, below 800 ms.
#[singleton_job(key = "import-products", ttl = "10s", retries = 3, retry_delay = "200ms")]
async fn import_products(State(supplier): State<Supplier>, run: Run) -> anyhow::Result<()> {
    println!("import-products  try {}, fence {}", run.retry() + 1, run.fence());
    supplier.fetch()
}

/// Fails at every try: the run ends with the last error, and its record has the earlier ones as well.
#[singleton_job(key = "send-report", ttl = "10s", retries = 2, retry_delay = "200ms")]
async fn send_report() -> anyhow::Result<()> {
    bail!("there is no printer")
}

/// Hangs. The timeout covers the whole run, all tries and pauses together, so there is no retry after it.
#[singleton_job(key = "call-tax-office", ttl = "10s", timeout = "1s", retries = 3, retry_delay = "200ms")]
async fn call_tax_office() {
    let _cleaned_up = CleanedUp;
    std::future::pending::<()>().await;
}

/// Stands for an API that is down for the first two calls.
#[derive(Clone, Default)]
struct Supplier(Arc<AtomicU32>);

impl Supplier {
    fn fetch(&self) -> anyhow::Result<()> {
        let earlier = self.0.fetch_add(1, Ordering::Relaxed);
        ensure!(earlier >= 2, "503 Service Unavailable");
        Ok(())
    }
}

/// A cancelled function is dropped at its `await`, with all its values.
struct CleanedUp;

impl Drop for CleanedUp {
    fn drop(&mut self) {
        println!("call-tax-office  is dropped");
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let supplier = Supplier::default();
    let jobs =
        jobs::builder().url("memory://retries").state(supplier.clone()).on_event(report).start_all().await?;

    let import = run(&jobs, "import-products").await?;
    ensure!(import.outcome == RunOutcome::Succeeded, "the third try should have succeeded");
    ensure!(import.failed_tries.len() == 2, "two tries failed before it");
    ensure!(supplier.0.load(Ordering::Relaxed) == 3, "the supplier was called once per try");

    let report = run(&jobs, "send-report").await?;
    ensure!(report.outcome == RunOutcome::Failed, "no try could succeed");
    ensure!(report.failed_tries.len() == 2, "the last error is the run's own, those before it are tries");
    ensure!(report.error.as_deref() == Some("there is no printer"), "the record should have the error");

    let call = run(&jobs, "call-tax-office").await?;
    ensure!(call.outcome == RunOutcome::TimedOut, "it was not cancelled");
    ensure!(call.failed_tries.is_empty(), "there should be no retry after a timeout");
    ensure!(call.duration() >= Duration::from_secs(1), "it was cancelled too early");

    // Three runs, not seven: tries are part of one run.
    let stats = jobs.history("import-products").await?.stats;
    ensure!((stats.runs, stats.successes, stats.failures) == (1, 1, 0), "{stats:?}");
    jobs.shutdown().await;
    Ok(())
}

async fn run(jobs: &Jobs, key: &str) -> anyhow::Result<RunRecord> {
    let RunNow::Ran(run) = jobs.run_now(key).await? else { bail!("{key} did not run") };
    let (tries, took) = (run.failed_tries.len() + 1, run.duration());
    let error = run.error.as_deref().map(|error| format!(": {error}")).unwrap_or_default();
    println!("{key:<16} {} after {took:.1?}, in {tries} tries{error}\n", run.outcome);
    Ok(run)
}

/// In production this would count, or alert.
fn report(event: &Event) {
    if let EventKind::Retrying { retry, error, pause, .. } = &event.kind {
        println!("{:<16} retry {retry} in {pause:.1?}: {error}", event.key);
    }
}
