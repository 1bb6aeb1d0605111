//! Pools without a free connection, and connections that break.

use std::time::{Duration, Instant};

use jobs::store::{StoreErrorKind, SwapReply};
use support::pools::PoolKind;
use support::postgres_server::PATIENCE;

use super::{KEY, apply, database_and_pool, on_every_pool, swap_from, unused_name};

on_every_pool! {
    exhausted_pool_is_an_error_with_that_reason
    connections_that_the_server_ends_are_replaced
    restarted_server_is_found_again_and_has_forgotten_nothing
    blocked_runtime_of_the_application_is_a_timeout
}

async fn exhausted_pool_is_an_error_with_that_reason(kind: PoolKind) {
    let (_database, pool) = database_and_pool(kind, 1).await;
    let namespace = unused_name();
    let (store, brief) = (pool.store(&namespace), Duration::from_millis(200));
    let hasty = pool.store_within(&namespace, brief, PATIENCE);
    store.look(KEY).await.expect("one is free");
    let mut taken = pool.get().await;
    let begun = Instant::now();
    let error = hasty.look(KEY).await.expect_err("none is free");
    assert_eq!(error.kind(), StoreErrorKind::TimedOut, "{error}");
    assert!(begun.elapsed() < PATIENCE / 2, "it took {:?}", begun.elapsed());
    let said = error.to_string();
    assert!(said.contains("all of them are in use") && said.contains("make the pool larger"), "{said}");
    taken.ask("SELECT 1").await;
    drop(taken);
    // The caller that gave up has left the queue, and has taken no connection with it.
    for _ in 0..3 {
        apply(&*store, &swap_from(store.look(KEY).await.expect("one is free again").version)).await;
    }
}

/// Each request fails or succeeds, and after an end of its session the next ones succeed.
async fn connections_that_the_server_ends_are_replaced(kind: PoolKind) {
    let (database, pool) = database_and_pool(kind, 2).await;
    let store = pool.store(&unused_name());
    let mut version = Some(apply(&*store, &swap_from(None)).await.version);
    let mut administrator = database.administrator().await;
    let mut failed = 0;
    for round in 0..20_u64 {
        let ended = pool.get().await.session().await;
        let end = if kind.is_postgres() {
            format!("SELECT pg_terminate_backend({ended})")
        } else {
            format!("KILL {ended}")
        };
        let ending = async {
            tokio::time::sleep(Duration::from_micros(round * 379 % 3_000)).await;
            // It may be gone already.
            let _gone = administrator.try_ask(&end).await;
        };
        let mut sent = Vec::new();
        let swapping = async {
            for _ in 0..4 {
                let swap = swap_from(version);
                sent.push(swap.nonce);
                match store.swap(KEY, &swap).await {
                    Ok(SwapReply::Swapped(swapped)) => version = Some(swapped.version),
                    Ok(SwapReply::Changed(look)) => version = look.version,
                    Err(error) => {
                        assert_eq!(error.kind(), StoreErrorKind::Unreachable, "{error}");
                        failed += 1;
                    }
                }
            }
        };
        tokio::join!(ending, swapping);
        let look = loop {
            match store.look(KEY).await {
                Ok(look) => break look,
                Err(error) => assert_eq!(error.kind(), StoreErrorKind::Unreachable, "{error}"),
            }
        };
        assert!(
            look.version == version || look.version.is_some_and(|version| sent.contains(&version.nonce)),
            "only this store writes"
        );
        version = look.version;
    }
    println!("{failed} requests failed");
}

async fn restarted_server_is_found_again_and_has_forgotten_nothing(kind: PoolKind) {
    let (database, pool) = database_and_pool(kind, 2).await;
    let store = pool.store_within(&unused_name(), Duration::from_secs(2), Duration::from_secs(2));
    let swapped = apply(&*store, &swap_from(None)).await;
    let _database = database.restart().await;
    let begun = Instant::now();
    let look = loop {
        match store.look(KEY).await {
            Ok(look) => break look,
            Err(error) => assert!(begun.elapsed() < PATIENCE, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!(look.version, Some(swapped.version));
    apply(&*store, &swap_from(look.version)).await;
}

/// The scheduler's thread measures the timeouts.
async fn blocked_runtime_of_the_application_is_a_timeout(kind: PoolKind) {
    let (database, url) = {
        let database = super::Database::start(kind).await;
        let url = database.url();
        (database, url)
    };
    let (lend, lent) = tokio::sync::oneshot::channel();
    let (block, blocked) = std::sync::mpsc::channel::<()>();
    let application = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async move {
            let pool = kind.pool(&url, 1);
            let (response, name) = (Duration::from_millis(300), unused_name());
            let store = pool.store_within(&name, PATIENCE, response);
            // The tables are made.
            pool.store(&name).look(KEY).await.expect("an answer");
            lend.send(store).map_err(drop).expect("a test");
            // A job that blocks.
            tokio::time::sleep(Duration::from_millis(100)).await;
            let _ended = blocked.recv();
        });
    });
    let store = lent.await.expect("a store");
    tokio::time::sleep(Duration::from_millis(300)).await;
    let begun = Instant::now();
    let brief = Duration::from_secs(2);
    let result = tokio::time::timeout(brief, store.look(KEY)).await;
    // Without a thread of its own, the pool cannot even lend: that may take as long as the timeout of a connection.
    assert!(result.is_err() || result.is_ok_and(|look| look.is_err()));
    assert!(begun.elapsed() < brief * 2, "it took {:?}", begun.elapsed());
    drop(block);
    tokio::task::spawn_blocking(|| application.join().expect("no panic")).await.expect("it ends");
    drop(database);
}
