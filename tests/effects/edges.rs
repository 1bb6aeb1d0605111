//! Transactions that end otherwise than by a commit in time: lost leases, deadlocks, timeouts, breaks, retries.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use jobs::history::RunOutcome;
use jobs::locks::OnceOutcome;
use jobs::transaction::FinishError;
use jobs::{Job, Jobs, Run};
use mysql_async::prelude::Queryable as _;
use tokio::sync::mpsc;

use crate::{TestBank, on_every_database};
use support::bank::{AtOnce, Booking, Steps, refusal};

on_every_database! {
    transaction_cannot_be_committed_after_a_lost_lease;
    run_that_is_broken_after_its_commit_is_recorded_as_committed;
    run_is_not_repeated_after_its_commit;
    task_that_a_timed_out_run_left_behind_commits_nothing;
}

const KEY: &str = "pay";

/// A job whose runs the test gets, and which wait for an order.
fn waiting_job() -> (Job, mpsc::UnboundedReceiver<(Run, mpsc::UnboundedSender<()>)>) {
    let (sender, runs) = mpsc::unbounded_channel();
    let job = Job::builder(KEY).ttl("2s").run(move |run: Run| {
        let sender = sender.clone();
        async move {
            let (order, mut orders) = mpsc::unbounded_channel();
            sender.send((run, order)).expect("the test listens");
            orders.recv().await;
        }
    });
    (job.build().expect("a job"), runs)
}

async fn outcome(jobs: &Jobs) -> RunOutcome {
    for _ in 0..500 {
        if let Some(run) = jobs.history(KEY).await.expect("a history").runs.first() {
            return run.outcome;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("no run has ended");
}

/// The error is returned, and the caller commits all the same.
async fn transaction_cannot_be_committed_after_a_lost_lease(bank: &TestBank) {
    let (job, mut runs) = waiting_job();
    let jobs = bank.server([job]).await;
    let asked = jobs.clone();
    tokio::spawn(async move { asked.run_now(KEY).await });
    let (run, _order) = runs.recv().await.expect("a run");
    let other = bank.program().await;
    other.break_lock(KEY).await.expect("a broken lock");
    run.cancelled().await;
    let fleet = &bank.namespace;
    bank.bank.book_and_ignore(&run, fleet).await;
    assert_eq!(bank.bank.booked(fleet).await, 0);
    let refused = refusal(bank.bank.book(&run, fleet, (Booking::Finish, 1), &AtOnce).await);
    assert!(matches!(refused, FinishError::LeaseLost { .. }), "{refused}");
    other.shutdown().await;
    jobs.shutdown().await;
}

async fn run_that_is_broken_after_its_commit_is_recorded_as_committed(bank: &TestBank) {
    let (job, mut runs) = waiting_job();
    let jobs = bank.server([job]).await;
    let asked = jobs.clone();
    tokio::spawn(async move { asked.run_now(KEY).await });
    let (run, order) = runs.recv().await.expect("a run");
    bank.bank.book(&run, &bank.namespace, (Booking::Finish, 1), &AtOnce).await.expect("a transaction");
    let other = bank.program().await;
    other.break_lock(KEY).await.expect("a broken lock");
    assert_eq!(outcome(&other).await, RunOutcome::Committed);
    drop(order);
    other.shutdown().await;
    jobs.shutdown().await;
}

async fn run_is_not_repeated_after_its_commit(bank: &TestBank) {
    let (at, fleet, calls) = (bank.bank.clone(), bank.namespace.clone(), Arc::new(AtomicU32::new(0)));
    let counted = calls.clone();
    let job = Job::builder(KEY).ttl("30s").retries(3, "10ms").run(move |run: Run| {
        let (at, fleet, counted) = (at.clone(), fleet.clone(), counted.clone());
        async move {
            counted.fetch_add(1, Ordering::Relaxed);
            at.book(&run, &fleet, (Booking::Finish, 1), &AtOnce).await?;
            anyhow::Result::<()>::Err(anyhow::anyhow!("the answer to the commit was lost"))
        }
    });
    let jobs = bank.server([job.build().expect("a job")]).await;
    jobs.run_now(KEY).await.expect("a run");
    assert_eq!(outcome(&jobs).await, RunOutcome::Committed);
    assert_eq!((calls.load(Ordering::Relaxed), bank.bank.booked(&bank.namespace).await), (1, 1));
    jobs.shutdown().await;
}

/// Dropping the function does not end a task that it has spawned.
async fn task_that_a_timed_out_run_left_behind_commits_nothing(bank: &TestBank) {
    let (at, fleet) = (bank.bank.clone(), bank.namespace.clone());
    let (sender, mut results) = mpsc::unbounded_channel();
    let job = Job::builder(KEY).ttl("30s").timeout("200ms").run(move |run: Run| {
        let (at, fleet, sender) = (at.clone(), fleet.clone(), sender.clone());
        async move {
            tokio::spawn(async move {
                run.cancelled().await;
                // Long enough for the release.
                tokio::time::sleep(Duration::from_secs(1)).await;
                let booked = at.book(&run, &fleet, (Booking::Finish, 1), &AtOnce).await;
                sender.send(booked).expect("the test listens");
            });
            std::future::pending::<()>().await;
        }
    });
    let jobs = bank.server([job.build().expect("a job")]).await;
    jobs.run_now(KEY).await.expect("a run");
    assert_eq!(outcome(&jobs).await, RunOutcome::TimedOut);
    let refused = refusal(results.recv().await.expect("a result"));
    assert!(matches!(refused, FinishError::LeaseLost { .. }), "{refused}");
    assert_eq!(bank.bank.booked(&bank.namespace).await, 0);
    jobs.shutdown().await;
}

/// A transaction of another kind of database than the store's cannot be checked at all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transaction_on_another_kind_of_database_cannot_be_committed() {
    for (store, other) in [("sqlite", "postgres"), ("postgres", "mysql"), ("mysql", "sqlite")] {
        let (bank, other) = (TestBank::on(store).await, TestBank::on(other).await);
        let (job, mut runs) = waiting_job();
        let jobs = bank.server([job]).await;
        let asked = jobs.clone();
        tokio::spawn(async move { asked.run_now(KEY).await });
        let (run, order) = runs.recv().await.expect("a run");
        other.bank.book_and_ignore(&run, &other.namespace).await;
        assert_eq!(other.bank.booked(&other.namespace).await, 0, "{store}");
        drop(order);
        jobs.shutdown().await;
    }
}

/// Commits two seconds after its check.
struct Late;

impl Steps for Late {
    async fn booked(&self) {}
    async fn checked(&self) {
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
}

/// The release waits for the transaction, and then sees its mark.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commit_that_outlasts_the_function_counts() {
    for kind in ["postgres", "mysql"] {
        let bank = TestBank::on(kind).await;
        let (at, fleet) = (bank.bank.clone(), bank.namespace.clone());
        let job = Job::builder(KEY).ttl("30s").pause_after(1).run(move |run: Run| {
            let (at, fleet) = (at.clone(), fleet.clone());
            async move {
                tokio::spawn(async move { at.book(&run, &fleet, (Booking::Finish, 1), &Late).await });
                tokio::time::sleep(Duration::from_secs(1)).await;
                Err::<(), _>("failed meanwhile")
            }
        });
        let jobs = bank.server([job.build().expect("a job")]).await;
        jobs.run_now(KEY).await.expect("a run");
        assert_eq!(outcome(&jobs).await, RunOutcome::Committed, "{kind}");
        assert_eq!(bank.bank.booked(&bank.namespace).await, 1);
        assert_eq!(jobs.history(KEY).await.expect("a history").pause, None);
        jobs.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_that_is_not_committed_is_not_done() {
    let bank = TestBank::on("postgres").await;
    let jobs = bank.program().await;
    for _ in 0..2 {
        let work = jobs.once("webhook:9").within("1h").run(async |run| {
            let (mut client, connection) =
                tokio_postgres::connect(bank.bank.url(), tokio_postgres::NoTls).await?;
            tokio::spawn(connection);
            let mut transaction = client.transaction().await?;
            run.finish(&mut transaction).await?;
            anyhow::Ok(transaction.rollback().await?)
        });
        assert!(matches!(work.await.expect("the work").ran(), Some(())));
    }
    jobs.shutdown().await;
}

/// It could be rolled back alone, and the mark with it. The control is the same call outside of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn savepoint_of_postgres_is_refused() {
    let bank = TestBank::on("postgres").await;
    let (job, mut runs) = waiting_job();
    let jobs = bank.server([job]).await;
    let asked = jobs.clone();
    tokio::spawn(async move { asked.run_now(KEY).await });
    let (run, order) = runs.recv().await.expect("a run");
    let (mut client, connection) =
        tokio_postgres::connect(bank.bank.url(), tokio_postgres::NoTls).await.expect("a connection");
    tokio::spawn(connection);
    let mut transaction = client.transaction().await.expect("a transaction");
    let mut savepoint = transaction.transaction().await.expect("a savepoint");
    let refused = run.finish(&mut savepoint).await.expect_err("a savepoint");
    assert!(matches!(refused, FinishError::UnknownLease { .. }), "{refused}");
    savepoint.rollback().await.expect("a rollback");
    // A savepoint that was rolled back is still open.
    run.finish(&mut transaction).await.expect_err("an open savepoint");
    drop(transaction);
    let mut transaction = client.transaction().await.expect("a transaction");
    run.finish(&mut transaction).await.expect("a transaction without a savepoint");
    transaction.commit().await.expect("a commit");
    drop(order);
    assert_eq!(outcome(&jobs).await, RunOutcome::Succeeded);
    jobs.shutdown().await;
}

/// The same checks by way of `sqlx`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transactions_of_sqlx_finish_once() {
    for kind in ["postgres", "mysql"] {
        let bank = TestBank::on(kind).await;
        let (job, mut runs) = waiting_job();
        let jobs = bank.server([job]).await;
        let asked = jobs.clone();
        tokio::spawn(async move { asked.run_now(KEY).await });
        let (run, order) = runs.recv().await.expect("a run");
        bank.bank.book_by_sqlx(&run, &bank.namespace).await.expect("a transaction");
        let again = refusal(bank.bank.book_by_sqlx(&run, &bank.namespace).await);
        assert!(matches!(again, FinishError::AlreadyFinished { .. }), "{kind}: {again}");
        assert_eq!(bank.bank.booked(&bank.namespace).await, 1, "{kind}");
        drop(order);
        assert_eq!(outcome(&jobs).await, RunOutcome::Succeeded, "{kind}");
        jobs.shutdown().await;
    }
}

/// What a call of `once` did.
trait Ran<T> {
    fn ran(self) -> Option<T>;
}

impl<T> Ran<T> for OnceOutcome<T> {
    fn ran(self) -> Option<T> {
        match self {
            Self::Ran(value) => Some(value),
            _ => None,
        }
    }
}

/// Otherwise the mark would be committed without the work.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transaction_that_the_database_has_ended_is_refused() {
    let bank = TestBank::on("mysql").await;
    let jobs = bank.program().await;
    let ended = jobs.once("webhook:10").run(async |run| {
        let mut connection = mysql_async::Conn::new(mysql_async::Opts::from_url(bank.bank.url())?).await?;
        let mut transaction = connection.start_transaction(mysql_async::TxOpts::new()).await?;
        // A statement that commits by itself.
        transaction.query_drop("CREATE TABLE IF NOT EXISTS unrelated (id INT)").await?;
        anyhow::Ok(run.finish(&mut transaction).await.expect_err("no transaction"))
    });
    let refused = ended.await.expect("the work").ran().expect("an error");
    assert!(matches!(refused, FinishError::NoTransaction { .. }), "{refused}");

    // Without `autocommit`, the next statement begins another transaction, and the mark would be committed with that.
    let ended = jobs.once("webhook:11").run(async |run| {
        let mut connection = mysql_async::Conn::new(mysql_async::Opts::from_url(bank.bank.url())?).await?;
        connection.query_drop("SET autocommit = 0").await?;
        let mut transaction = connection.start_transaction(mysql_async::TxOpts::new()).await?;
        transaction.query_drop("CREATE TABLE IF NOT EXISTS unrelated (id INT)").await?;
        transaction.query_drop("INSERT INTO unrelated VALUES (1)").await?;
        let refused = run.finish(&mut transaction).await.expect_err("a session without autocommit");
        transaction.query_drop("INSERT INTO unrelated VALUES (2)").await.expect_err("a write after it");
        transaction.commit().await?;
        anyhow::Ok(refused)
    });
    let refused = ended.await.expect("the work").ran().expect("an error");
    assert!(refused.to_string().contains("set `autocommit = 1`"), "{refused}");
    assert_eq!(bank.bank.query("SELECT '', id, 0 FROM unrelated").await.expect("a table"), []);
    jobs.shutdown().await;

    let bank = TestBank::on("sqlite").await;
    let jobs = bank.program().await;
    let path = bank.bank.url().strip_prefix("sqlite://").expect("a path").to_owned();
    let ended = jobs.once("webhook:10").run(async |run| {
        tokio::task::block_in_place(|| {
            let mut connection = rusqlite::Connection::open(&path)?;
            let transaction = connection.transaction()?;
            transaction.execute_batch("ROLLBACK")?;
            anyhow::Ok(run.finish_blocking(&transaction).expect_err("no transaction"))
        })
    });
    let refused = ended.await.expect("the work").ran().expect("an error");
    assert!(matches!(refused, FinishError::NoTransaction { .. }), "{refused}");
    jobs.shutdown().await;
}
