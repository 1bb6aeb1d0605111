//! Runs during a shutdown: one stops at a safe point, one stops at once, one is cancelled.
//!
//!     cargo run --example graceful_shutdown

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use jobs::history::RunOutcome;
use jobs::{Builder, Run, State, Timestamp, singleton_job};
use tokio::time::sleep;

/// The number of invoices sent: the next run continues from it.
#[derive(Clone, Default)]
struct Sent(Arc<AtomicU32>);

/// Takes minutes, but checks after each invoice whether the server shuts down.
#[singleton_job(key = "send-invoices", ttl = "10s", every = "1s")]
async fn send_invoices(State(sent): State<Sent>, run: Run) {
    while !run.is_stopping() && sent.0.load(Ordering::Relaxed) < 1_000 {
        sleep(Duration::from_millis(300)).await; // send one
        sent.0.fetch_add(1, Ordering::Relaxed);
    }
    println!("send-invoices   stops after a whole invoice");
}

/// Waits for a message that may never arrive, and for the shutdown.
#[singleton_job(key = "watch-inbox", ttl = "10s", every = "1s")]
async fn watch_inbox(run: Run) {
    tokio::select! {
        () = std::future::pending() => {} // a message arrives
        () = run.stopping() => println!("watch-inbox     stops at once"),
    }
}

/// Checks nothing, and takes longer than the grace.
#[singleton_job(key = "rebuild-search", ttl = "10s", every = "1s")]
async fn rebuild_search() {
    sleep(Duration::from_secs(600)).await;
    println!("rebuild-search  is done"); // not in this example
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let sent = Sent::default();
    let namespace = format!("shutdown-{}", Timestamp::now().as_micros()); // undisturbed by an earlier run
    let builder = || jobs::builder().or_embedded().namespace(&namespace).state(sent.clone());

    // 25 s unless set, because orchestrators kill a process 30 s after asking it to stop.
    let jobs = builder().shutdown_grace("2s").start_all().await?;
    println!("all three jobs are running for a while …");
    sleep(Duration::from_secs(4)).await;
    println!("… and the server shuts down, with a grace of 2 s");
    jobs.shutdown().await;
    println!("it is down; {} invoices are sent\n", sent.0.load(Ordering::Relaxed));

    show_history(builder()).await
}

/// The outcomes of the runs are on the store: here a server reads them that runs nothing itself.
async fn show_history(builder: Builder) -> anyhow::Result<()> {
    let expected = [
        ("send-invoices", RunOutcome::Succeeded),
        ("watch-inbox", RunOutcome::Succeeded),
        ("rebuild-search", RunOutcome::Cancelled),
    ];
    let jobs = expected.iter().fold(builder, |builder, (key, _)| builder.disable(*key)).start_all().await?;
    for (key, outcome) in expected {
        let history = jobs.history(key).await?;
        let run = history.runs.first().with_context(|| format!("{key} has not run"))?;
        let (took, skipped) = (run.ended.since(run.started), history.skips.len());
        println!("{key:<15} {:<10} after {took:.1?}; {skipped} ticks were skipped meanwhile", run.outcome);
        ensure!(
            history.runs.len() == 1,
            "{key} should have run once: it was still running at every later tick"
        );
        ensure!(run.outcome == outcome, "{key} should have ended as: {outcome}");
    }
    jobs.shutdown().await;
    Ok(())
}
