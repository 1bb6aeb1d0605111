//! The calls of an operator: pause a job on every server, run it manually here and on another server, resume it.
//!
//!     cargo run --example run_now_and_pause

use std::time::Duration;

use anyhow::{Context, bail, ensure};
use jobs::events::EventKind;
use jobs::history::{History, RunRecord, Skip};
use jobs::{Builder, Jobs, Run, RunNow, Timestamp, singleton_job};
use tokio::time::{sleep, timeout};

const JOB: &str = "import-products";

/// Pulls new products from the supplier.
#[singleton_job(key = "import-products", ttl = "10s", every = "1s")]
async fn import_products(run: Run) {
    sleep(Duration::from_millis(200)).await;
    let why = if run.tick().is_some() { "scheduled" } else { "manual" };
    println!("  {why} run on {}", run.server());
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    // The office server has an admin page and runs no jobs; workers have no page.
    let office = server("office").disable(JOB).start_all().await?;
    let worker = server("worker").start_all().await?;
    wait_for_a_run(&worker).await?;

    println!("the office pauses the job: every server skips its ticks");
    office.by("anna").pause(JOB).reason("the supplier is down").lasting("1h").await?;
    let paused = Timestamp::now();
    sleep(Duration::from_millis(2_500)).await;
    let history = office.history(JOB).await?;
    println!("  {} ticks were skipped", history.skips.len());
    let pause = history.pause.as_ref().context("it should be paused")?;
    println!("  by {}: {}", pause.by, pause.reason.as_deref().unwrap_or_default());
    ensure!(history.skips.iter().any(|skip| skip.reason == Skip::Paused), "no skip was recorded");
    ensure!(scheduled_after(paused, &history).is_none(), "a tick ran although the job is paused");

    println!("a paused job can still be run manually, one run at a time");
    let (one, other) = tokio::join!(worker.run_now(JOB), worker.run_now(JOB));
    match (one?, other?) {
        (RunNow::Ran(run), RunNow::Held(holder)) | (RunNow::Held(holder), RunNow::Ran(run)) => {
            println!(
                "  the second call was refused: the job was running on {}",
                holder.server.unwrap_or_default()
            );
            ensure!(run.tick.is_none(), "a manual run consumes no tick");
        }
        both => bail!("one of two should have run: {both:?}"),
    }

    println!("the worker is replaced; meanwhile the office requests a run");
    worker.shutdown().await;
    let deploy = async {
        sleep(Duration::from_millis(500)).await;
        server("new-worker").start_all().await
    };
    // A worker takes requests with its heartbeat: when it starts, and every 20 s.
    let (asked, worker) = tokio::join!(office.run_now(JOB), deploy);
    let (asked, worker) = (asked?, worker?);
    let RunNow::Ran(run) = asked else { bail!("the new worker should have run it: {asked:?}") };
    println!("  {} after {:.1?}, on {}", run.outcome, run.duration(), run.server);
    ensure!(run.server == worker.server_id(), "it ran on another server");
    for server in office.servers().await? {
        println!("  {} schedules {} job(s)", server.id, server.jobs.len());
    }

    println!("the office resumes the job: ticks of the pause do not run");
    let resumed = Timestamp::now();
    office.resume(JOB).await?;
    wait_for_a_run(&worker).await?;
    let history = office.history(JOB).await?;
    let first = scheduled_after(paused, &history).context("no tick has run")?;
    ensure!(first.tick > Some(resumed), "it ran for a tick of the pause");

    let mistake = office.pause("import-prodcuts").await.err().context("a typing mistake was accepted")?;
    println!("a typing mistake: {mistake}");
    worker.shutdown().await;
    office.shutdown().await;
    Ok(())
}

fn server(name: &str) -> Builder {
    jobs::builder().url("memory://run-now-and-pause").server_id(name)
}

async fn wait_for_a_run(server: &Jobs) -> anyhow::Result<()> {
    let mut events = server.events();
    let succeeded = async {
        while let Some(event) = events.next().await {
            if matches!(event.kind, EventKind::Succeeded { .. }) {
                return Ok(());
            }
        }
        bail!("the server has ended")
    };
    timeout(Duration::from_secs(20), succeeded).await.context("no run within 20 s")?
}

/// The first scheduled run that started after this instant.
fn scheduled_after(time: Timestamp, history: &History) -> Option<&RunRecord> {
    history.runs.iter().rev().find(|run| run.tick.is_some() && run.started > time)
}
