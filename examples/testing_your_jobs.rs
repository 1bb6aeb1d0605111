//! Tests of your own jobs, with servers that crash: ten servers and hours of their time in milliseconds of yours.
//!
//!     cargo run --example testing_your_jobs
//!
//! Two jobs do the same work, one of them carelessly. The same test finds that out. In your project it is a
//! `#[tokio::test(start_paused = true)]`.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, ensure};
use jobs::history::RunOutcome;
use jobs::testing::{Fleet, pretend_locked};
use jobs::{Run, State, Timestamp, assert_locked, singleton_job};
use tokio::time::sleep;

const CUSTOMERS: [&str; 5] = ["Ada", "Bo", "Cleo", "Dan", "Eve"];

/// Writes as it goes. When another server takes the tick over, it begins again: some customers pay twice.
#[singleton_job(key = "charge-naively", ttl = "30s", every = "0 3 * * *", on_crash = "retry")]
async fn charge_naively(State(ledger): State<Ledger>) {
    for customer in CUSTOMERS {
        sleep(Duration::from_secs(10)).await; // the bank takes its time
        ledger.append(customer);
    }
}

/// The same, but every charge has an id that follows from the tick. Whoever repeats it writes it once more over itself.
#[singleton_job(key = "charge-repeatably", ttl = "30s", every = "0 3 * * *", on_crash = "retry")]
async fn charge_repeatably(State(ledger): State<Ledger>, run: Run) -> anyhow::Result<()> {
    let tick = run.tick().context("started by its schedule")?; // the same for whoever takes it over
    for customer in CUSTOMERS {
        sleep(Duration::from_secs(10)).await;
        ledger.upsert((tick, customer), run.fence());
    }
    Ok(())
}

/// Stands for a database.
#[derive(Clone, Default)]
struct Ledger(Arc<Mutex<Charges>>);

#[derive(Default)]
struct Charges {
    appended: Vec<&'static str>,
    by_id: BTreeMap<(Timestamp, &'static str), i64>,
}

impl Ledger {
    fn append(&self, customer: &'static str) {
        assert_locked(); // nobody but a job may write here
        self.0.lock().unwrap_or_else(PoisonError::into_inner).appended.push(customer);
    }

    fn upsert(&self, id: (Timestamp, &'static str), fence: i64) {
        assert_locked();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).by_id.insert(id, fence);
    }

    fn charged(&self) -> Vec<&'static str> {
        let charges = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        charges.appended.iter().copied().chain(charges.by_id.keys().map(|(_, customer)| *customer)).collect()
    }
}

/// The test: ten servers, and the one that charges crashes half-way.
async fn everybody_pays_once(job: &str) -> anyhow::Result<()> {
    let ledger = Ledger::default();
    // One server's clock is five seconds slow, which must not matter.
    let fleet =
        Fleet::of(10).annotated_job(job).state(ledger.clone()).clock_off_by(3, -5_000).start().await?;

    // From noon to 25 s after 3 o'clock: two customers are charged.
    fleet.run_for(Duration::from_secs(15 * 3600 + 25)).await;
    fleet.running(job).await.context("it should be running at this time")?.crash();
    fleet.run_for(Duration::from_secs(300)).await;

    let runs = fleet.history(job).await.runs;
    let outcomes: Vec<_> = runs.iter().map(|run| (run.attempt, run.outcome)).collect();
    ensure!(
        outcomes == [(2, RunOutcome::Succeeded), (1, RunOutcome::Crashed)],
        "another server should have finished it: {outcomes:?}"
    );
    let (charged, mut seen) = (ledger.charged(), HashSet::new());
    ensure!(
        CUSTOMERS.iter().all(|customer| charged.contains(customer)),
        "not everybody has paid: {charged:?}"
    );
    let twice: Vec<_> = charged.iter().filter(|customer| !seen.insert(**customer)).collect();
    ensure!(twice.is_empty(), "these have paid twice: {twice:?}");
    Ok(())
}

/// A unit test of code that only jobs may call.
fn the_ledger_takes_a_charge() -> anyhow::Result<()> {
    let ledger = Ledger::default();
    let alone = std::panic::catch_unwind(|| Ledger::default().append("Ada"));
    ensure!(alone.is_err(), "whoever is in no job must not get through");
    let _locked = pretend_locked();
    ledger.append("Ada");
    ensure!(ledger.charged() == ["Ada"], "the charge was lost");
    Ok(())
}

fn main() -> anyhow::Result<()> {
    // Time stands still while anybody has something to do, and then jumps to whatever is due next.
    let mut paused = tokio::runtime::Builder::new_current_thread();
    let runtime = paused.enable_all().start_paused(true).build()?;
    runtime.block_on(async {
        let caught =
            everybody_pays_once("charge-naively").await.err().context("the mistake was not caught")?;
        println!("charge-naively     fails its test: {caught}");
        ensure!(caught.to_string().contains(r#"["Ada", "Bo"]"#), "for another reason than expected");

        everybody_pays_once("charge-repeatably").await?;
        println!("charge-repeatably  passes: a crash and a takeover later, everybody has paid once");
        anyhow::Ok(())
    })?;
    std::panic::set_hook(Box::new(|refusal| println!("ledger, in no job  refuses: {refusal}")));
    the_ledger_takes_a_charge()?;
    println!("ledger, in a test  takes a charge");
    Ok(())
}
