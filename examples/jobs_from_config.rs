//! Jobs and schedules that come from configuration instead of the source.
//!
//!     cargo run --example jobs_from_config

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, ensure};
use jobs::{Job, Run, State, Timestamp, singleton_job};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

/// Stands for a file. Cron with 5 or 6 fields, a nickname such as `@hourly`, or an interval.
const CONFIG: &str = "
    # feed       = schedule
    feeds/news   = 1s
    feeds/prices = */2 * * * * *
    feeds/stock  = @hourly
";

const INVALID_CONFIG: &str = "
    feeds/news   = 1s
    feeds/prices = 0 25 * * *
";

/// The keys of jobs that have run.
type Ran = UnboundedSender<String>;

// The annotation has the default schedule; this installation sets another one.
/// Sends the report of the day.
#[singleton_job(key = "send-report", ttl = "10s", every = "0 3 * * *", tz = "Europe/Berlin")]
async fn send_report(State(ran): State<Ran>, run: Run) -> anyhow::Result<()> {
    Ok(ran.send(run.key().to_owned())?)
}

// Disabled on this server.
/// Deletes old orders.
#[singleton_job(key = "delete-old-orders", ttl = "10s", every = "1s")]
async fn delete_old_orders(State(ran): State<Ran>, run: Run) -> anyhow::Result<()> {
    Ok(ran.send(run.key().to_owned())?)
}

/// One job per line, `key = schedule`.
fn read_jobs(config: &str, ran: &Ran) -> anyhow::Result<Vec<Job>> {
    let lines = config.lines().map(str::trim).zip(1..);
    let lines = lines.filter(|(line, _)| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|(line, number)| read_job(line, ran).with_context(|| format!("line {number}: {line}")))
        .collect()
}

fn read_job(line: &str, ran: &Ran) -> anyhow::Result<Job> {
    let (key, schedule) = line.split_once('=').context("expected `key = schedule`")?;
    let job = Job::builder(key.trim()).every(schedule.trim()).ttl("10s");
    let ran = ran.clone();
    let job = job.run(move |run| {
        let ran = ran.clone();
        async move { ran.send(run.key().to_owned()) } // fetch the feed
    });
    Ok(job.build()?)
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().with_env_filter("jobs=info").without_time().init(); // lists every job
    let (ran, mut runs) = unbounded_channel();

    let mistake = read_jobs(INVALID_CONFIG, &ran).err().context("an invalid schedule was accepted")?;
    println!("invalid configuration: {mistake:#}\n");
    ensure!(format!("{mistake:#}").contains("hour 25"), "the error should name the invalid hour");

    let jobs = jobs::builder()
        .or_embedded()
        .namespace(format!("config-{}", Timestamp::now().as_micros())) // apart from earlier runs of this example
        .state(ran.clone())
        .schedule("send-report", "1s") // JOBS_SCHEDULES="send-report=1s" does the same
        .disable("delete-old-orders") // JOBS_DISABLE="delete-old-orders" does the same
        .jobs(read_jobs(CONFIG, &ran)?)
        .start_all()
        .await?;

    tokio::time::sleep(Duration::from_secs(4)).await; // serve requests here
    jobs.shutdown().await;

    let ran: BTreeSet<_> = std::iter::from_fn(|| runs.try_recv().ok()).collect();
    println!("\nran: {ran:?}");
    for key in ["feeds/news", "feeds/prices", "send-report"] {
        ensure!(ran.contains(key), "{key} was due and did not run");
    }
    ensure!(!ran.contains("delete-old-orders"), "delete-old-orders is disabled and ran");
    Ok(())
}
