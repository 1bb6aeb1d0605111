//! A test that puts your jobs through faults drawn from seeds, and finds a job whose writes are not repeatable.
//!
//!     cargo run --example chaos_test
//!
//! Both jobs are taken over when their server dies, so both start again from the beginning. One of them charges some
//! customers twice. In your project the test is a `#[test]` that tries a few dozen seeds.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, ensure};
use jobs::testing::Fleet;
use jobs::{Run, State, Timestamp, singleton_job};
use tokio::time::sleep;

const CUSTOMERS: [&str; 3] = ["Ada", "Bo", "Cleo"];
const SEEDS: u64 = 20;

/// Appends each charge, as an `INSERT` does.
#[singleton_job(key = "charge-naively", ttl = "10s", every = "1m", on_crash = "retry")]
async fn charge_naively(State(ledger): State<Ledger>, run: Run) -> anyhow::Result<()> {
    let tick = run.tick().context("started by its schedule")?;
    for customer in CUSTOMERS {
        sleep(Duration::from_secs(3)).await;
        ledger.charge(tick, customer, |charges| charges + 1);
    }
    Ok(())
}

/// The same, but the charge of a tick and a customer exists once, as after an `INSERT … ON CONFLICT DO NOTHING`.
#[singleton_job(key = "charge-repeatably", ttl = "10s", every = "1m", on_crash = "retry")]
async fn charge_repeatably(State(ledger): State<Ledger>, run: Run) -> anyhow::Result<()> {
    let tick = run.tick().context("started by its schedule")?;
    for customer in CUSTOMERS {
        sleep(Duration::from_secs(3)).await;
        ledger.charge(tick, customer, |_| 1);
    }
    Ok(())
}

/// Stands for a database: how often each customer was charged for each tick.
#[derive(Clone, Default)]
struct Ledger(Arc<Mutex<BTreeMap<(Timestamp, &'static str), u32>>>);

impl Ledger {
    fn charge(&self, tick: Timestamp, customer: &'static str, change: impl Fn(u32) -> u32) {
        let mut charges = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let charge = charges.entry((tick, customer)).or_default();
        *charge = change(*charge);
    }

    fn charged_twice(&self) -> Vec<(Timestamp, &'static str)> {
        let charges = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        charges.iter().filter(|(_, times)| **times > 1).map(|(charge, _)| *charge).collect()
    }
}

/// The test: no customer is charged twice for a tick, whatever happens to the servers.
async fn no_customer_pays_twice(job: &str, seed: u64) -> anyhow::Result<()> {
    let ledger = Ledger::default();
    let mut fleet = Fleet::of(3).annotated_job(job).state(ledger.clone()).start().await?;
    let faults = fleet.chaos(seed).run_for(Duration::from_secs(1800)).await;
    fleet.run_for(Duration::from_secs(120)).await;
    ensure!(!fleet.history(job).await.runs.is_empty(), "nothing ran under {faults:?}");
    let twice = ledger.charged_twice();
    ensure!(twice.is_empty(), "seed {seed}: charged twice: {twice:?}");
    Ok(())
}

/// Tries the seeds, each on a clock of its own that stands still while a task can run.
fn try_seeds(job: &str) -> anyhow::Result<()> {
    for seed in 0..SEEDS {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?;
        runtime.block_on(no_customer_pays_twice(job, seed))?;
    }
    Ok(())
}

fn main() -> anyhow::Result<()> {
    let found = try_seeds("charge-naively").err().context("no seed has found the mistake")?;
    println!("charge-naively     fails its test: {found}");
    try_seeds("charge-repeatably")?;
    println!("charge-repeatably  passes {SEEDS} seeds");
    Ok(())
}
