//! Connections on which the application has not ended a transaction: a request must not become part of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use jobs::store::{StoreErrorKind, SwapReply};
use support::pools::{ApplicationPool, PoolKind};

use super::{Database, KEY, PAYMENTS, apply, database_and_pool, on_every_pool, swap_from, unused_name};
use crate::dropped_conditions::{Replacement, relay};

on_every_pool! {
    request_over_a_connection_in_a_transaction_is_refused_and_the_connection_is_closed
    transaction_of_the_application_undoes_a_claim_or_is_committed_without_the_check
    tables_are_not_created_in_a_transaction_of_the_application
}

/// Leaves a transaction open on the pool's only connection, as an application with a mistake does.
async fn leave_a_transaction(pool: &ApplicationPool) -> String {
    let mut own = pool.get().await;
    own.ask("BEGIN").await;
    own.ask("INSERT INTO payment VALUES (7)").await;
    own.session().await
}

async fn request_over_a_connection_in_a_transaction_is_refused_and_the_connection_is_closed(kind: PoolKind) {
    let (_database, pool) = database_and_pool(kind, 1).await;
    pool.ask(PAYMENTS).await;
    let store = pool.store(&unused_name());
    let first = apply(&*store, &swap_from(None)).await;
    for _ in 0..2 {
        let left = leave_a_transaction(&pool).await;
        let error = store.swap(KEY, &swap_from(Some(first.version))).await.expect_err("in a transaction");
        assert_eq!(error.kind(), StoreErrorKind::Refused, "{error}");
        assert!(error.to_string().contains("end every transaction before"), "{error}");
        assert_ne!(pool.get().await.session().await, left, "it is closed");
        let left = leave_a_transaction(&pool).await;
        store.look(KEY).await.expect_err("in a transaction");
        assert_ne!(pool.get().await.session().await, left, "it is closed");
        assert_eq!(store.look(KEY).await.expect("a look").version, Some(first.version));
    }
    assert_eq!(pool.ask("SELECT COUNT(*) FROM payment").await.as_deref(), Some("0"), "nothing was committed");
    apply(&*store, &swap_from(Some(first.version))).await;
}

/// The control: the check is removed on its way to the server.
async fn transaction_of_the_application_undoes_a_claim_or_is_committed_without_the_check(kind: PoolKind) {
    let database = Database::start(kind).await;
    let check = if kind.is_postgres() {
        Replacement { text: "SELECT WHERE 1 / (now() = statement_timestamp())::int = 0", by: "" }
    } else {
        Replacement { text: "SET TRANSACTION ISOLATION LEVEL READ COMMITTED", by: "DO 0" }
    };
    let removed = Arc::new(AtomicUsize::new(0));
    let port = relay(database.port(), check, Arc::clone(&removed)).await;
    let url = database.url().replace(&format!(":{}", database.port()), &format!(":{port}"));
    let pool = kind.pool(&url, 1);
    pool.ask(PAYMENTS).await;
    let store = pool.store(&unused_name());
    let first = apply(&*store, &swap_from(None)).await;
    leave_a_transaction(&pool).await;
    let swapped = store.swap(KEY, &swap_from(Some(first.version))).await.expect("an answer");
    assert!(matches!(swapped, SwapReply::Swapped(_)), "{swapped:?}");
    assert!(removed.load(Ordering::Relaxed) > 0);
    if kind.is_postgres() {
        pool.ask("ROLLBACK").await;
        assert_eq!(
            store.look(KEY).await.expect("a look").version,
            Some(first.version),
            "the claim is undone"
        );
    } else {
        // A transaction begins with the commit of the one before it.
        assert_eq!(pool.ask("ROLLBACK; SELECT COUNT(*) FROM payment").await.as_deref(), Some("1"));
    }
}

async fn tables_are_not_created_in_a_transaction_of_the_application(kind: PoolKind) {
    let (_database, pool) = database_and_pool(kind, 1).await;
    pool.ask(PAYMENTS).await;
    let store = pool.store(&unused_name());
    leave_a_transaction(&pool).await;
    store.look(KEY).await.expect_err("in a transaction");
    store.look(KEY).await.expect("over another connection");
}
