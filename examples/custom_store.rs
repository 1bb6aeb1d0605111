//! A store of your own: two servers share a job through a SQLite database.
//!
//!     cargo run --example custom_store
//!
//! The store itself is `custom_store/sqlite_store.rs`. `tests/stores/custom_store.rs` tests it with the contract and the random
//! operations that test the stores of this crate.

#[path = "custom_store/sqlite_store.rs"]
mod sqlite_store;

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use jobs::history::RunOutcome;
use jobs::store::Store;
use jobs::{Jobs, Run, State, Timestamp, singleton_job};
use sqlite_store::SqliteStore;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::timeout;

const TICKS_WITH_BOTH: usize = 4;
const TICKS_WITH_ONE: usize = 2;

#[singleton_job(key = "count-visitors", ttl = "5s", every = "1s")]
async fn count_visitors(State(ran): State<UnboundedSender<Timestamp>>, run: Run) -> anyhow::Result<()> {
    let tick = run.tick().context("started by its schedule")?;
    println!("{tick}  {}", run.server());
    ran.send(tick).context("the receiver was dropped")
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let folder = std::env::temp_dir().join(format!("custom-store-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let raced = race(&folder.join("jobs.db")).await;
    std::fs::remove_dir_all(&folder)?;
    raced
}

async fn race(database: &Path) -> anyhow::Result<()> {
    let (ran, mut runs) = unbounded_channel();
    let first = serve("first", database, &ran).await?;
    let second = serve("second", database, &ran).await?;

    let mut ticks = BTreeSet::new();
    count(TICKS_WITH_BOTH, &mut runs, &mut ticks).await?;
    first.shutdown().await;
    println!("the first server was shut down");
    count(TICKS_WITH_ONE, &mut runs, &mut ticks).await?;

    second.shutdown().await;
    while let Ok(tick) = runs.try_recv() {
        ensure!(ticks.insert(tick), "{tick} ran twice");
    }

    let store = SqliteStore::open(database)?;
    let state = store.look("count-visitors").await?.state;
    let mut runs = store.records(&["count-visitors".to_owned()], usize::MAX).await?.remove(0).runs;
    // A slow disk can take so long to grant a lease that nothing is started under it.
    runs.retain(|run| run.outcome != RunOutcome::NotStarted);
    let on_the_second = runs.iter().filter(|run| run.server.starts_with("second")).count();
    println!("{} runs in the database, {on_the_second} of them on the second server", state.stats.runs);
    ensure!(runs.len() == ticks.len(), "{} ticks ran, and these are on record: {runs:?}", ticks.len());
    Ok(())
}

/// Starts a server with its own connection, as another process would.
async fn serve(name: &str, database: &Path, ran: &UnboundedSender<Timestamp>) -> anyhow::Result<Jobs> {
    let store = SqliteStore::open(database)?;
    Ok(jobs::builder().store(store).server_id(name).state(ran.clone()).start_all().await?)
}

async fn count(
    more: usize,
    runs: &mut UnboundedReceiver<Timestamp>,
    ticks: &mut BTreeSet<Timestamp>,
) -> anyhow::Result<()> {
    for _ in 0..more {
        let tick = timeout(Duration::from_secs(20), runs.recv()).await?.context("the servers have ended")?;
        ensure!(ticks.insert(tick), "{tick} ran twice");
    }
    Ok(())
}
