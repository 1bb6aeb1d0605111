//! A long run reports its progress, and every server can show it.
//!
//!     cargo run --example report_progress

use std::time::Duration;

use anyhow::{Context, bail, ensure};
use jobs::{Jobs, Run, RunNow, singleton_job};
use tokio::time::sleep;

const JOB: &str = "rebuild-search";
const SHELVES: [&str; 4] = ["tea", "cups", "pots", "trays"];
const PAGES: u64 = 8;

// No schedule: this example starts it manually instead of waiting for a tick.
/// Progress costs no round trip: it is sent when the lease is extended, every third of the ttl.
#[singleton_job(key = "rebuild-search", ttl = "3s")]
async fn rebuild_search(run: Run) {
    let pages = SHELVES.into_iter().flat_map(|shelf| (1..=PAGES).map(move |page| (shelf, page)));
    for ((shelf, page), done) in pages.zip(0..) {
        run.set_progress(done, total());
        run.set_status(format!("page {page} of {shelf}"));
        sleep(Duration::from_millis(150)).await; // index it
    }
    run.set_progress(total(), total());
    run.set_status("all shelves");
}

fn total() -> u64 {
    PAGES * u64::try_from(SHELVES.len()).unwrap_or(u64::MAX)
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let server = |name: &str| jobs::builder().url("memory://progress").server_id(name);
    let worker = server("worker").start_all().await?;
    let office = server("office").disable(JOB).start_all().await?;

    let (ran, seen) = tokio::join!(worker.run_now(JOB), watch(&office));
    let (ran, seen) = (ran?, seen?);
    ensure!(seen.len() >= 3, "the office should have seen the progress: {seen:?}");
    ensure!(seen.is_sorted(), "the progress went backwards: {seen:?}");

    let RunNow::Ran(run) = ran else { bail!("it did not run: {ran:?}") };
    let progress = run.progress.as_ref().context("the record has no progress")?;
    println!("{} after {:.1?}, with {}", run.outcome, run.duration(), progress.status);
    ensure!((progress.done, progress.total) == (total(), total()), "the last progress is not the total");

    let stats = office.history(JOB).await?.stats;
    println!(
        "{} run(s) so far, {:.1?} on average",
        stats.runs,
        stats.mean().context("no run has succeeded")?
    );
    worker.shutdown().await;
    office.shutdown().await;
    Ok(())
}

/// Reads the history until the run has ended, and returns the progress that it showed.
async fn watch(office: &Jobs) -> anyhow::Result<Vec<u64>> {
    let mut seen = Vec::new();
    loop {
        sleep(Duration::from_millis(100)).await;
        let history = office.history(JOB).await?;
        if !history.runs.is_empty() {
            return Ok(seen);
        }
        let Some(run) = history.current else { continue };
        let Some(progress) = run.progress.filter(|progress| seen.last() != Some(&progress.done)) else {
            continue;
        };
        let whole = usize::try_from(progress.done)?;
        let (full, empty) = ("█".repeat(whole), "·".repeat(usize::try_from(total())? - whole));
        println!("{}  {full}{empty}  {}", run.server, progress.status);
        seen.push(progress.done);
    }
}
