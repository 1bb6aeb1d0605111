//! Requests that no caller waits for any longer: their connections never return to the pool.

use std::time::{Duration, Instant};

use jobs::store::{StoreErrorKind, SwapReply};
use support::pools::{ApplicationPool, LentConnection, PoolKind};
use support::postgres_server::PATIENCE;

use super::{KEY, PAYMENTS, apply, database_and_pool, on_every_pool, swap_from, unused_name};

on_every_pool! {
    abandoned_request_that_succeeds_later_neither_delays_the_application_nor_leaves_it_a_transaction
    timed_out_request_takes_its_connection_out_of_the_pool
    application_is_answered_and_commits_only_its_own_after_abandoned_requests
    harm_of_a_pool_that_gets_abandoned_connections_back_is_noticed
}

async fn timed_out_request_takes_its_connection_out_of_the_pool(kind: PoolKind) {
    let (database, pool) = database_and_pool(kind, 1).await;
    let namespace = unused_name();
    let store = pool.store(&namespace);
    let version = Some(apply(&*store, &swap_from(None)).await.version);
    let first = pool.get().await.session().await;
    assert_eq!(pool.get().await.session().await, first, "what works is returned");
    apply(&*store, &swap_from(version)).await;
    assert_eq!(pool.get().await.session().await, first, "the store returns it, too");

    let mut administrator = database.administrator().await;
    let lock = if kind.is_postgres() { "BEGIN; LOCK TABLE job_lock" } else { "LOCK TABLES job_lock WRITE" };
    administrator.ask(lock).await;
    // Statements wait longer for a lock.
    let hasty = pool.store_within(&namespace, PATIENCE, Duration::from_millis(20));
    let error = hasty.look(KEY).await.expect_err("the table is locked");
    assert_eq!(error.kind(), StoreErrorKind::TimedOut, "{error}");
    let second = pool.get().await.session().await;
    assert_ne!(second, first, "it left its statement to the next user");
    // On a busy machine it may be cancelled before it has borrowed anything.
    for attempt in 1.. {
        let cancelled = tokio::time::timeout(Duration::from_millis(40), store.look(KEY)).await;
        if cancelled.is_err() && pool.get().await.session().await != second {
            break;
        }
        assert!(attempt < 100, "a dropped request left its statement to the next user");
    }
    administrator.ask(if kind.is_postgres() { "ROLLBACK" } else { "UNLOCK TABLES" }).await;
    store.look(KEY).await.expect("the table is free");
}

/// Without an error of the server, a client could drain the answer and use the connection again.
async fn abandoned_request_that_succeeds_later_neither_delays_the_application_nor_leaves_it_a_transaction(
    kind: PoolKind,
) {
    const SOON: Duration = Duration::from_secs(10);
    let (database, pool) = database_and_pool(kind, 1).await;
    let namespace = unused_name();
    let store = pool.store(&namespace);
    let first = apply(&*store, &swap_from(None)).await;
    let mut administrator = database.administrator().await;
    // A commit waits for a standby, or an update sleeps, by the rights of the administrator.
    let (block, waits) = if kind.is_postgres() {
        administrator.ask("ALTER SYSTEM SET synchronous_standby_names = 'gone'").await;
        ("SELECT pg_reload_conf()", "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
    } else {
        (
            "CREATE TRIGGER slow BEFORE UPDATE ON job_lock FOR EACH ROW DO SLEEP(1)",
            "SELECT id FROM information_schema.processlist WHERE state = 'User sleep'",
        )
    };
    administrator.ask(block).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    let swap = swap_from(Some(first.version));
    let waiting = async {
        while administrator.ask(waits).await.is_none() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        reply = store.swap(KEY, &swap) => panic!("it waits: {reply:?}"),
        () = waiting => {}
    }
    let used = tokio::time::timeout(SOON, async {
        let mut own = pool.get().await;
        (own.ask("SELECT 7").await, is_in_transaction(&mut own).await, own.ask("COMMIT").await)
    });
    let (answer, in_transaction, _) = used.await.expect("the application is served at once");
    assert_eq!((answer.as_deref(), in_transaction), (Some("7"), Ok(false)));
    if !kind.is_postgres() {
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        let look = store.look(KEY).await.expect("a look");
        assert_eq!(look.version, Some(first.version), "nobody has committed it");
    }
}

/// What the application sees in its only connection: the answers to its own statements, no transaction, and no rows
/// of others after its own commit.
async fn use_by_application(pool: &ApplicationPool, round: u64) -> Result<(), String> {
    let mut own = pool.get().await;
    let answer = own.try_ask(&format!("SELECT {round} + 1000")).await?;
    if answer != Some((round + 1000).to_string()) {
        return Err(format!("the answer to another statement: {answer:?}"));
    }
    if is_in_transaction(&mut own).await? {
        return Err("in another user's transaction".to_owned());
    }
    own.try_ask(&format!("BEGIN; INSERT INTO payment VALUES ({round}); COMMIT")).await?;
    Ok(())
}

async fn is_in_transaction(own: &mut LentConnection) -> Result<bool, String> {
    let sql = match own {
        LentConnection::DeadpoolPostgres(_) | LentConnection::SqlxPostgres(_) => {
            "SELECT CASE WHEN now() = statement_timestamp() THEN 0 ELSE 1 END"
        }
        _ => "SELECT @@in_transaction",
    };
    Ok(own.try_ask(sql).await?.as_deref() != Some("0"))
}

/// Ends after so many turns of the runtime: a timer is too coarse.
async fn patience(turns: u64) {
    for _ in 0..=turns {
        tokio::task::yield_now().await;
    }
}

async fn application_is_answered_and_commits_only_its_own_after_abandoned_requests(kind: PoolKind) {
    const ROUNDS: u64 = 150;
    let (_database, pool) = database_and_pool(kind, 1).await;
    pool.ask(PAYMENTS).await;
    let store = pool.store(&unused_name());
    let mut version = Some(apply(&*store, &swap_from(None)).await.version);
    let (mut dropped, mut applied) = (0, 0);
    for round in 0..ROUNDS {
        let swap = swap_from(version);
        let answered = tokio::select! {
            biased;
            reply = store.swap(KEY, &swap) => {
                assert!(matches!(reply, Ok(SwapReply::Swapped(_))), "{reply:?}");
                true
            }
            // A request takes about a millisecond, in a task of its own.
            () = patience(round * 11 % 300) => false,
        };
        dropped += u64::from(!answered);
        use_by_application(&pool, round).await.unwrap_or_else(|harm| panic!("round {round}: {harm}"));
        // What was sent and not answered may still be applied, by its own session.
        let begun = Instant::now();
        version = loop {
            let next = swap_from(version);
            match store.swap(KEY, &next).await.expect("an answer") {
                SwapReply::Swapped(swapped) => break Some(swapped.version),
                SwapReply::Changed(look) => {
                    let nonce = look.version.map(|version| version.nonce);
                    assert!(nonce == Some(swap.nonce) || begun.elapsed() < PATIENCE, "{look:?}");
                    applied += u64::from(nonce == Some(swap.nonce) && !answered);
                    version = look.version;
                }
            }
        };
    }
    println!("{dropped} of {ROUNDS} were dropped, {applied} of them applied");
    assert!(dropped > ROUNDS / 10, "{dropped} were dropped: this shows nothing");
    let payments = pool.ask("SELECT COUNT(*) FROM payment").await;
    assert_eq!(payments, Some(ROUNDS.to_string()));
}

/// The control: the application itself abandons a transaction as a store would that returned its connections.
async fn harm_of_a_pool_that_gets_abandoned_connections_back_is_noticed(kind: PoolKind) {
    let (_database, pool) = database_and_pool(kind, 1).await;
    pool.ask(PAYMENTS).await;
    use_by_application(&pool, 1).await.expect("no harm yet");
    let mut own = pool.get().await;
    // The first of two messages.
    own.ask("BEGIN; INSERT INTO payment VALUES (-1)").await;
    drop(own);
    use_by_application(&pool, 2).await.expect_err("in another user's transaction");
}
