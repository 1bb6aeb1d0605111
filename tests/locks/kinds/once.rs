//! Work that is done once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jobs::history::History;
use jobs::locks::{LockError, OnceError, OnceOutcome};
use jobs::testing::Fleet;

use crate::kit::{fleet, secs};

async fn succeed(fleet: &Fleet, server: usize) -> OnceOutcome<i64> {
    let once = fleet.server(server).once("webhook:42").within("1h");
    once.run(|run| async move { Ok::<_, String>(run.fence()) }).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn work_that_succeeded_is_not_done_again_within_the_period() {
    let fleet = fleet(2).await;
    let began = fleet.now();
    assert!(matches!(succeed(&fleet, 0).await, OnceOutcome::Ran(_)));
    fleet.run_for(secs(3500)).await;
    let OnceOutcome::AlreadyDone(when) = succeed(&fleet, 1).await else { panic!("done again") };
    assert!(when.since(began) < Duration::from_secs(1));
    fleet.run_for(secs(101)).await;
    assert!(matches!(succeed(&fleet, 1).await, OnceOutcome::Ran(_)), "the period is over");
}

#[tokio::test(start_paused = true)]
async fn work_that_failed_is_done_by_the_next_attempt() {
    let fleet = fleet(2).await;
    let failed = fleet.server(0).once("webhook:42").run(|_| async { Err::<(), _>("no such customer") }).await;
    let error = failed.unwrap_err();
    assert!(matches!(error, OnceError::Failed("no such customer")));
    assert_eq!(error.to_string(), "no such customer");
    assert_eq!(fleet.history("webhook:42").await, History::default(), "no record is left");
    assert!(matches!(succeed(&fleet, 1).await, OnceOutcome::Ran(_)));
}

async fn panics() -> Result<(), String> {
    tokio::task::yield_now().await;
    panic!("on purpose")
}

#[tokio::test(start_paused = true)]
async fn work_that_panicked_or_was_dropped_is_done_by_the_next_attempt() {
    let fleet = fleet(1).await;
    let once = fleet.server(0).once("webhook:42");
    let panicked = tokio::spawn(once.clone().run(|_| panics()));
    assert!(panicked.await.unwrap_err().is_panic());
    fleet.run_for(secs(1)).await;
    assert_eq!(fleet.history("webhook:42").await, History::default(), "no record is left");
    let begun = AtomicUsize::new(0);
    let endless = once.run(async |_| {
        begun.fetch_add(1, Ordering::SeqCst);
        std::future::pending::<Result<(), String>>().await
    });
    assert!(tokio::time::timeout(secs(1), endless).await.is_err());
    assert_eq!(begun.load(Ordering::SeqCst), 1);
    fleet.run_for(secs(1)).await;
    assert!(matches!(succeed(&fleet, 0).await, OnceOutcome::Ran(_)));
}

#[tokio::test(start_paused = true)]
async fn second_attempt_is_refused_or_waits_while_work_is_in_progress() {
    let fleet = fleet(3).await;
    let slow = fleet.server(0).once("webhook:42").run(|_| async {
        tokio::time::sleep(secs(5)).await;
        Ok::<_, String>(())
    });
    let others = async {
        fleet.run_for(secs(1)).await;
        let OnceOutcome::InProgress(holder) = succeed(&fleet, 1).await else { panic!("not in progress") };
        assert_eq!(holder.server.as_deref(), Some("server-0"));
        let waited =
            fleet.server(2).once("webhook:42").wait("60s").run(|_| async { Ok::<_, String>(()) }).await;
        assert!(matches!(waited, Ok(OnceOutcome::AlreadyDone(_))), "{waited:?}");
    };
    let (ran, ()) = tokio::join!(slow, others);
    assert!(matches!(ran, Ok(OnceOutcome::Ran(()))));
}

#[tokio::test(start_paused = true)]
async fn hundred_deliveries_on_ten_servers_succeed_once_after_three_failures() {
    let fleet = fleet(10).await;
    let (tries, successes) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    let mut deliveries = tokio::task::JoinSet::new();
    for number in 0..100 {
        let once = fleet.server(number % 10).once("webhook:42").wait("60s");
        let (tries, successes) = (tries.clone(), successes.clone());
        deliveries.spawn(once.run(move |_| async move {
            let number = tries.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(secs(1)).await;
            if number < 3 {
                Err("the database is away")
            } else {
                Ok(successes.fetch_add(1, Ordering::SeqCst))
            }
        }));
    }
    let results = deliveries.join_all().await;
    assert_eq!((tries.load(Ordering::SeqCst), successes.load(Ordering::SeqCst)), (4, 1));
    let done = results.iter().filter(|result| matches!(result, Ok(OnceOutcome::AlreadyDone(_)))).count();
    let failed = results.iter().filter(|result| matches!(result, Err(OnceError::Failed(_)))).count();
    assert_eq!((done, failed), (96, 3));
}

#[tokio::test(start_paused = true)]
async fn work_whose_lease_is_lost_is_not_marked_as_done() {
    let fleet = fleet(2).await;
    let cut = async {
        fleet.run_for(secs(1)).await;
        fleet.server(0).cut_off(true);
    };
    let lost = fleet.server(0).once("webhook:42").ttl("10s").run(|_| async {
        tokio::time::sleep(secs(60)).await;
        Ok::<_, String>(())
    });
    let (lost, ()) = tokio::join!(lost, cut);
    assert!(matches!(lost, Err(OnceError::Lock(LockError::Lost { .. }))), "{lost:?}");
    fleet.run_for(secs(10)).await;
    assert!(matches!(succeed(&fleet, 1).await, OnceOutcome::Ran(_)));
}

#[tokio::test(start_paused = true)]
async fn work_is_marked_as_done_even_if_the_reply_is_lost() {
    let fleet = fleet(2).await;
    let ran = fleet.server(0).once("webhook:42").ttl("10s").run(async |_| {
        fleet.server(0).lose_replies(true);
        Ok::<_, String>(7)
    });
    assert_eq!(ran.await.unwrap(), OnceOutcome::Ran(7), "it ran, though the reply was lost");
    assert!(matches!(succeed(&fleet, 1).await, OnceOutcome::AlreadyDone(_)));
}
