//! Traces: one root span for each run, with the spans and events of the job inside of it, exported by OpenTelemetry.
//!
//!     cargo run --example opentelemetry
//!
//! The exporter prints. A service sends its spans to a collector instead: `opentelemetry-otlp`, with a batch exporter.

use std::time::Duration;

use anyhow::{bail, ensure};
use jobs::history::RunOutcome;
use jobs::{Jobs, Run, RunNow, singleton_job};
use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tokio::time::sleep;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Pulls new products from the supplier. The first try fails, and its retry is an event in the span of the run.
#[singleton_job(key = "import-products", ttl = "10s", retries = 1, retry_delay = "200ms")]
async fn import_products(run: Run) -> anyhow::Result<()> {
    fetch_page(1).await;
    ensure!(run.retry() > 0, "the supplier has closed the connection");
    fetch_page(2).await;
    Ok(())
}

/// A span of its own, inside that of the run.
#[tracing::instrument]
async fn fetch_page(number: u32) {
    sleep(Duration::from_millis(50)).await;
    tracing::info!(products = 12, "fetched");
}

/// Fails: `error.type` is `failed`, and the status is an error with the text.
#[singleton_job(key = "close-books", ttl = "10s")]
async fn close_books() -> anyhow::Result<()> {
    bail!("the books do not balance")
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let provider = SdkTracerProvider::builder()
        .with_resource(Resource::builder().with_service_name("shop").build())
        .with_simple_exporter(opentelemetry_stdout::SpanExporter::default())
        .build();
    // Fields about threads and lines of code are left out here, to keep the output short.
    let traces = tracing_opentelemetry::layer()
        .with_tracer(provider.tracer("shop"))
        .with_location(false)
        .with_threads(false)
        .with_target(false)
        .with_tracked_inactivity(false);
    tracing_subscriber::registry().with(traces.with_filter(LevelFilter::INFO)).init();

    let jobs = jobs::builder().url("memory://opentelemetry").server_id("web").start_all().await?;
    ensure!(
        outcome(&jobs, "import-products").await? == RunOutcome::Succeeded,
        "it succeeds at the second try"
    );
    ensure!(outcome(&jobs, "close-books").await? == RunOutcome::Failed, "it fails");
    jobs.shutdown().await;
    provider.shutdown()?; // exports what a batch exporter still has
    Ok(())
}

async fn outcome(jobs: &Jobs, key: &str) -> anyhow::Result<RunOutcome> {
    match jobs.run_now(key).await? {
        RunNow::Ran(record) => Ok(record.outcome),
        other => bail!("{key} did not run: {other:?}"),
    }
}
