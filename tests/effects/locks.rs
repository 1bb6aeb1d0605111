//! Locks and work that is done once, in a transaction.

use jobs::locks::{OnceError, OnceOutcome};
use jobs::transaction::FinishError;

use crate::{TestBank, on_every_database};
use support::bank::{AtOnce, Booking, refusal};

on_every_database! {
    work_that_is_committed_is_done_although_the_code_returns_an_error;
    work_that_is_not_finished_is_done_again_after_an_error;
    lock_that_was_broken_commits_nothing;
    slot_of_a_semaphore_cannot_be_checked;
}

async fn attempt(bank: &TestBank, jobs: &jobs::Jobs, booking: Booking) -> String {
    let work = jobs.once("webhook:7").within("1h").run(async |run| {
        bank.bank.book(&run, &bank.namespace, (booking, 2), &AtOnce).await?;
        Err::<(), _>(anyhow::anyhow!("the answer to the commit was lost"))
    });
    match work.await {
        Ok(OnceOutcome::AlreadyDone(_)) => "done".to_owned(),
        Err(OnceError::Failed(error)) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

async fn work_that_is_committed_is_done_although_the_code_returns_an_error(bank: &TestBank) {
    let jobs = bank.program().await;
    assert_eq!(attempt(bank, &jobs, Booking::Finish).await, "the answer to the commit was lost");
    for _ in 0..3 {
        assert_eq!(attempt(bank, &jobs, Booking::Finish).await, "done");
    }
    assert_eq!(bank.bank.booked(&bank.namespace).await, 1);
    jobs.shutdown().await;
}

/// The control.
async fn work_that_is_not_finished_is_done_again_after_an_error(bank: &TestBank) {
    let jobs = bank.program().await;
    for _ in 0..3 {
        assert_eq!(attempt(bank, &jobs, Booking::Unprotected).await, "the answer to the commit was lost");
    }
    assert_eq!(bank.bank.booked(&bank.namespace).await, 3);
    jobs.shutdown().await;
}

async fn lock_that_was_broken_commits_nothing(bank: &TestBank) {
    let jobs = bank.program().await;
    let other = bank.program().await;
    let lost = jobs.lock("till").ttl("60s").run(async |run| {
        bank.bank.book(&run, &bank.namespace, (Booking::Check, 1), &AtOnce).await.expect("the lock is held");
        other.break_lock("till").await.expect("a broken lock");
        let guard = other.lock("till").acquire().await.expect("a free lock");
        let refused = refusal(bank.bank.book(&run, &bank.namespace, (Booking::Check, 1), &AtOnce).await);
        assert!(
            matches!(refused, FinishError::Superseded { .. } | FinishError::LeaseLost { .. }),
            "{refused}"
        );
        guard.release().await.expect("a release");
    });
    drop(lost.await); // whether it is reported as lost depends on the time of the next extension
    assert_eq!(bank.bank.booked(&bank.namespace).await, 1);
    other.shutdown().await;
    jobs.shutdown().await;
}

async fn slot_of_a_semaphore_cannot_be_checked(bank: &TestBank) {
    let jobs = bank.program().await;
    let checked = jobs
        .semaphore("api", 2)
        .run(async |run| refusal(bank.bank.book(&run, &bank.namespace, (Booking::Check, 1), &AtOnce).await));
    let refused = checked.await.expect("a slot");
    assert!(matches!(refused, FinishError::Semaphore { .. }), "{refused}");
    jobs.shutdown().await;
}
