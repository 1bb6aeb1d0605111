//! The parameters of a job: your own values, values that may be missing, and the run.
//!
//!     cargo run --example job_parameters

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
        let until = run.tick().unwrap_or_else(Timestamp::now); // no tick: a manual run
        mailer.outbox.send(format!("{new} orders until {until}, counted by {}", run.server()))?;
    }
    Ok(new)
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    callable_as_a_function().await?;
    missing_state_is_an_error().await?;

    let (outbox, mut sent) = unbounded_channel();
    let orders = Orders::default();
    orders.0.store(7, Ordering::Relaxed);

    let jobs = jobs::builder()
        .or_embedded()
        .namespace(format!("state-{}", Timestamp::now().as_micros())) // apart from earlier runs of this example
        .state(orders.clone())
        .state(Mailer { outbox })
        .start_all()
        .await?;
    let mail = timeout(Duration::from_secs(20), sent.recv()).await.context("no mail within 20 s")?;
    let mail = mail.unwrap_or_default();
    println!("mail:    {mail}");
    ensure!(mail.starts_with("7 orders until ") && mail.ends_with(jobs.server_id()), "unexpected mail");
    ensure!(orders.0.load(Ordering::Relaxed) == 0, "the job got other orders");
    jobs.shutdown().await;
    Ok(())
}

/// A job stays an ordinary function: a unit test calls it without a store.
async fn callable_as_a_function() -> anyhow::Result<()> {
    let orders = Orders::default();
    orders.0.store(3, Ordering::Relaxed);
    let new = report_orders(State(orders), None, Run::detached("report-orders")).await?;
    println!("called:  {new} orders");
    ensure!(new == 3, "3 orders were expected");
    Ok(())
}

/// A missing state is an error before anything is scheduled, unless the job takes it as an `Option`.
async fn missing_state_is_an_error() -> anyhow::Result<()> {
    let Err(error) = jobs::builder().or_embedded().start_all().await else {
        bail!("started without the orders");
    };
    println!("error:   {error}");
    ensure!(
        error.to_string().contains("State<job_parameters::Orders>"),
        "the error should name the missing state"
    );
    ensure!(!error.to_string().contains("Mailer"), "the mailer may be missing");
    Ok(())
}
