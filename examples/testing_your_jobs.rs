//! Tests of your own jobs on ten servers, one of which crashes; hours pass in milliseconds.
//!
//!     cargo run --example testing_your_jobs
//!
//! Two jobs do the same work, one of them without repeatable writes. One test finds it. In your project the test is a
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

/// Appends each charge. When another server takes the tick over, it starts from the beginning: some customers pay twice.
#[singleton_job(key = "charge-naively", ttl = "30s", every = "0 3 * * *", on_crash = "retry")]
async fn charge_naively(State(ledger): State<Ledger>) {
    for customer in CUSTOMERS {
        sleep(Duration::from_secs(10)).await; // the bank is slow
        ledger.append(customer);
    }
}

/// The same, but every charge has an id derived from the tick, so a repeated charge overwrites itself.
#[singleton_job(key = "charge-repeatably", ttl = "30s", every = "0 3 * * *", on_crash = "retry")]
async fn charge_repeatably(State(ledger): State<Ledger>, run: Run) -> anyhow::Result<()> {
    let tick = run.tick().context("started by its schedule")?; // the same for every attempt
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
        assert_locked(); // only a job may write here
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

/// The test: ten servers, and the one that charges crashes half-way through.
async fn every_customer_pays_once(job: &str) -> anyhow::Result<()> {
    let ledger = Ledger::default();
    // The clock of one server is five seconds slow, which must make no difference.
    let fleet =
        Fleet::of(10).annotated_job(job).state(ledger.clone()).clock_off_by(3, -5_000).start().await?;

    // From noon to 25 s after 3 o'clock: two customers are charged.
    fleet.run_for(Duration::from_secs(15 * 3600 + 25)).await;
    fleet.running(job).await.context("it should be running")?.crash();
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
        "some customers have not paid: {charged:?}"
    );
    let twice: Vec<_> = charged.iter().filter(|customer| !seen.insert(**customer)).collect();
    ensure!(twice.is_empty(), "these customers have paid twice: {twice:?}");
    Ok(())
}

/// A unit test of code that only jobs may call.
fn ledger_accepts_a_charge() -> anyhow::Result<()> {
    let ledger = Ledger::default();
    let alone = std::panic::catch_unwind(|| Ledger::default().append("Ada"));
    ensure!(alone.is_err(), "code outside a job must be refused");
    let _locked = pretend_locked();
    ledger.append("Ada");
    ensure!(ledger.charged() == ["Ada"], "the charge was lost");
    Ok(())
}

fn main() -> anyhow::Result<()> {
    // The clock stands still while a task can run, and then jumps to the next timer.
    let mut paused = tokio::runtime::Builder::new_current_thread();
    let runtime = paused.enable_all().start_paused(true).build()?;
    runtime.block_on(async {
        let caught = every_customer_pays_once("charge-naively")
            .await
            .err()
            .context("the test did not find the mistake")?;
        println!("charge-naively     fails its test: {caught}");
        ensure!(
            caught.to_string().contains(r#"["Ada", "Bo"]"#),
            "it failed for another reason than expected"
        );

        every_customer_pays_once("charge-repeatably").await?;
        println!("charge-repeatably  passes: after a crash and a takeover every customer has paid once");
        anyhow::Ok(())
    })?;
    std::panic::set_hook(Box::new(|panic| println!("ledger, in no job  panics: {panic}")));
    ledger_accepts_a_charge()?;
    println!("ledger, in a test  accepts a charge");
    Ok(())
}
