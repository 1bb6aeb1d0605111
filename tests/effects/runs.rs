//! Runs of jobs that finish in a transaction: one step at a time.

use std::sync::Arc;
use std::time::Duration;

use jobs::history::RunOutcome;
use jobs::transaction::FinishError;
use jobs::{Job, Jobs, Run};
use tokio::sync::{Notify, mpsc};

use crate::{TestBank, on_every_database};
use support::bank::{AtOnce, Booking, Steps, refusal};

on_every_database! {
    finished_run_books_once_and_has_succeeded;
    second_finish_of_a_run_is_refused_and_books_nothing;
    transaction_of_a_run_that_was_broken_is_refused_and_books_nothing;
    run_that_returns_an_error_after_the_commit_is_recorded_as_committed;
    lease_is_extended_while_the_transaction_is_open;
    transaction_on_another_database_is_refused;
}

const KEY: &str = "pay";

/// A job that hands its run to the test, and returns what the test orders.
struct Ordered {
    job: Job,
    runs: mpsc::UnboundedReceiver<(Run, mpsc::UnboundedSender<Result<(), String>>)>,
}

fn ordered(ttl: &str) -> Ordered {
    let (sender, runs) = mpsc::unbounded_channel();
    let job = Job::builder(KEY).ttl(ttl.to_owned()).run(move |run: Run| {
        let sender = sender.clone();
        async move {
            let (order, mut orders) = mpsc::unbounded_channel();
            sender.send((run, order)).expect("the test listens");
            orders.recv().await.unwrap_or(Ok(()))
        }
    });
    Ordered { job: job.build().expect("a job"), runs }
}

/// Starts a manual run, and returns it with what ends it.
async fn started(bank: &TestBank, ttl: &str) -> (Jobs, Run, mpsc::UnboundedSender<Result<(), String>>) {
    let Ordered { job, mut runs } = ordered(ttl);
    let jobs = bank.server([job]).await;
    let asked = jobs.clone();
    tokio::spawn(async move { asked.run_now(KEY).await });
    let (run, order) = runs.recv().await.expect("a run");
    (jobs, run, order)
}

async fn outcome(jobs: &Jobs) -> (RunOutcome, Option<String>) {
    for _ in 0..500 {
        if let Some(run) = jobs.history(KEY).await.expect("a history").runs.first() {
            return (run.outcome, run.error.clone());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the run does not end");
}

async fn finished_run_books_once_and_has_succeeded(bank: &TestBank) {
    for level in 0..support::bank::LEVELS {
        let fleet = format!("{}-{level}", bank.namespace);
        let one = TestBank {
            namespace: fleet.clone(),
            bank: bank.bank.clone(),
            folder: support::folder::TempFolder::in_memory(),
        };
        let (jobs, run, order) = started(&one, "30s").await;
        bank.bank.book(&run, &fleet, (Booking::Check, level), &AtOnce).await.expect("a first transaction");
        bank.bank.book(&run, &fleet, (Booking::Finish, level), &AtOnce).await.expect("a second one");
        order.send(Ok(())).expect("the run");
        assert_eq!(outcome(&jobs).await, (RunOutcome::Succeeded, None));
        assert_eq!(bank.bank.booked(&fleet).await, 2);
        jobs.shutdown().await;
    }
}

async fn second_finish_of_a_run_is_refused_and_books_nothing(bank: &TestBank) {
    let (jobs, run, order) = started(bank, "30s").await;
    let fleet = &bank.namespace;
    bank.bank.book(&run, fleet, (Booking::Finish, 2), &AtOnce).await.expect("a transaction");
    for level in 0..support::bank::LEVELS {
        let again = refusal(bank.bank.book(&run, fleet, (Booking::Finish, level), &AtOnce).await);
        assert!(matches!(again, FinishError::AlreadyFinished { .. }), "{again}");
    }
    order.send(Ok(())).expect("the run");
    assert_eq!(outcome(&jobs).await, (RunOutcome::Succeeded, None));
    assert_eq!(bank.bank.booked(fleet).await, 1);
    jobs.shutdown().await;
}

async fn transaction_of_a_run_that_was_broken_is_refused_and_books_nothing(bank: &TestBank) {
    let (jobs, run, order) = started(bank, "60s").await;
    let operator = bank.program().await;
    operator.break_lock(KEY).await.expect("a broken lock");
    for booking in [Booking::Check, Booking::Finish] {
        for level in 0..support::bank::LEVELS {
            let refused = refusal(bank.bank.book(&run, &bank.namespace, (booking, level), &AtOnce).await);
            let is_over = matches!(refused, FinishError::Superseded { .. } | FinishError::LeaseLost { .. });
            assert!(is_over, "{refused}");
        }
    }
    assert_eq!(bank.bank.booked(&bank.namespace).await, 0);
    // The control: nothing else keeps it from writing.
    bank.bank.book(&run, &bank.namespace, (Booking::Unprotected, 0), &AtOnce).await.expect("a transaction");
    assert_eq!(bank.bank.booked(&bank.namespace).await, 1);
    drop(order.send(Ok(()))); // unless the run has learned of the break
    operator.shutdown().await;
    jobs.shutdown().await;
}

async fn run_that_returns_an_error_after_the_commit_is_recorded_as_committed(bank: &TestBank) {
    let (jobs, run, order) = started(bank, "30s").await;
    bank.bank.book(&run, &bank.namespace, (Booking::Finish, 1), &AtOnce).await.expect("a transaction");
    order.send(Err("the connection was lost".to_owned())).expect("the run");
    let error = Some("the connection was lost".to_owned());
    assert_eq!(outcome(&jobs).await, (RunOutcome::Committed, error));
    jobs.shutdown().await;
}

/// Rolls back where others commit.
struct NeverCommits;

impl Steps for NeverCommits {
    async fn booked(&self) {}
    async fn checked(&self) {
        std::future::pending::<()>().await;
    }
}

/// Not on SQLite: its transaction blocks, so it cannot be dropped half-way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_that_forgets_to_commit_is_recorded_as_failed() {
    for kind in ["postgres", "mysql"] {
        forget_to_commit(&TestBank::on(kind).await).await;
    }
}

async fn forget_to_commit(bank: &TestBank) {
    let (jobs, run, order) = started(bank, "30s").await;
    let half = bank.bank.book(&run, &bank.namespace, (Booking::Finish, 1), &NeverCommits);
    tokio::time::timeout(Duration::from_secs(2), half).await.expect_err("it waits");
    order.send(Ok(())).expect("the run");
    let (outcome, error) = outcome(&jobs).await;
    assert_eq!(outcome, RunOutcome::Failed);
    assert!(error.expect("an error").contains("not committed"));
    assert_eq!(bank.bank.booked(&bank.namespace).await, 0);
    jobs.shutdown().await;
}

/// Stays open between the check and the commit.
struct Open {
    checked: Notify,
    commit: Notify,
}

impl Steps for Open {
    async fn booked(&self) {}
    async fn checked(&self) {
        self.checked.notify_one();
        self.commit.notified().await;
    }
}

async fn lease_is_extended_while_the_transaction_is_open(bank: &TestBank) {
    let (jobs, run, order) = started(bank, "4s").await;
    let open = Arc::new(Open { checked: Notify::new(), commit: Notify::new() });
    let (database, fleet, steps) = (bank.bank.clone(), bank.namespace.clone(), open.clone());
    let booking = {
        let run = run.clone();
        tokio::spawn(async move { database.book(&run, &fleet, (Booking::Finish, 3), &*steps).await })
    };
    open.checked.notified().await;
    // A write transaction of SQLite blocks keep-alives: it must be shorter than a third of the ttl.
    // PostgreSQL ends one that is idle for a ttl.
    let long = if bank.bank.url().starts_with("sqlite") { 300 } else { 2000 };
    tokio::time::sleep(Duration::from_millis(long)).await;
    open.commit.notify_one();
    booking.await.expect("no panic").expect("a transaction");
    // Longer than the ttl since the start.
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert!(!run.is_cancelled(), "the lease was lost");
    order.send(Ok(())).expect("the run");
    assert_eq!(outcome(&jobs).await, (RunOutcome::Succeeded, None));
    jobs.shutdown().await;
}

async fn transaction_on_another_database_is_refused(bank: &TestBank) {
    let (jobs, run, order) = started(bank, "30s").await;
    // The transaction is on another database than the store.
    let other =
        support::bank::Bank::Sqlite(format!("sqlite://{}", bank.folder.path().join("other.db").display()));
    other.set_up().await.expect("a table");
    let refused = refusal(other.book(&run, &bank.namespace, (Booking::Finish, 1), &AtOnce).await);
    assert!(matches!(refused, FinishError::UnknownLease { .. }), "{refused}");
    assert_eq!(other.booked(&bank.namespace).await, 0);
    order.send(Ok(())).expect("the run");
    jobs.shutdown().await;
}
