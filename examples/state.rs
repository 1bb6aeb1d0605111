//! What a job can take: values of yours, values that may be missing, and the run itself.
//!
//!     cargo run --example state

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use jobs::{Run, State, Timestamp, singleton_job};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::time::timeout;

/// Stands for a connection pool: cheap to clone, and every clone is the same pool.
#[derive(Clone, Default)]
struct Orders(Arc<AtomicU32>);

/// Configured in production, missing on a developer's machine.
#[derive(Clone)]
struct Mailer {
    outbox: UnboundedSender<String>,
}

/// Reports how many orders came in.
#[singleton_job(key = "report-orders", ttl = "10s", every = "1s")]
async fn report_orders(
    State(orders): State<Orders>,
    mailer: Option<State<Mailer>>,
    run: Run,
) -> anyhow::Result<u32> {
    let new = orders.0.swap(0, Ordering::Relaxed);
    if let Some(State(mailer)) = mailer {
        let until = run.tick().unwrap_or_else(Timestamp::now); // no tick: called by hand
        mailer.outbox.send(format!("{new} orders until {until}, counted by {}", run.server()))?;
    }
    Ok(new)
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    called_like_any_function().await?;
    refused_without_its_state().await?;

    let (outbox, mut sent) = unbounded_channel();
    let orders = Orders::default();
    orders.0.store(7, Ordering::Relaxed);

    let jobs = jobs::builder()
        .or_embedded()
        .namespace(format!("state-{}", Timestamp::now().as_micros())) // undisturbed by an earlier run
        .state(orders.clone())
        .state(Mailer { outbox })
        .start_all()
        .await?;
    let mail = timeout(Duration::from_secs(20), sent.recv()).await.context("no mail within 20 s")?;
    let mail = mail.unwrap_or_default();
    println!("mail:    {mail}");
    ensure!(
        mail.starts_with("7 orders until ") && mail.ends_with(jobs.server_id()),
        "another mail was expected"
    );
    ensure!(orders.0.load(Ordering::Relaxed) == 0, "the job worked on orders of its own");
    jobs.shutdown().await;
    Ok(())
}

/// A job is the function that was written: a unit test calls it, without a store and without waiting.
async fn called_like_any_function() -> anyhow::Result<()> {
    let orders = Orders::default();
    orders.0.store(3, Ordering::Relaxed);
    let new = report_orders(State(orders), None, Run::detached("report-orders")).await?;
    println!("called:  {new} orders");
    ensure!(new == 3, "3 orders were expected");
    Ok(())
}

/// Everything a job needs is checked before anything is scheduled. What it takes as an `Option` may be missing.
async fn refused_without_its_state() -> anyhow::Result<()> {
    let Err(refusal) = jobs::builder().or_embedded().start_all().await else {
        bail!("started without the orders");
    };
    println!("refused: {refusal}");
    ensure!(refusal.to_string().contains("State<state::Orders>"), "the error should name what is missing");
    ensure!(!refusal.to_string().contains("Mailer"), "the mailer may be missing");
    Ok(())
}
