//! Sessions end, differ, and are anybody's.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jobs::history::RunOutcome;
use jobs::store::{
    Change, ClaimDecision, ClaimPurpose, ExtendReply, ReleaseReply, Store, StoreErrorKind, Swap, SwapReply,
    Topic,
};
use tokio_postgres::types::Type;
use tokio_postgres::{NoTls, SimpleQueryMessage};

use crate::postgres::{claim_on, open, open_url, store_at, unused_name, win};
use support::bench::{LONG, claim, claim_now, claim_what, ending, holder};
use support::pooler::Pooler;
use support::postgres_server::PostgresServer;
use support::proxy::Proxy;

#[tokio::test]
async fn termination_of_a_session_during_a_claim_is_harmless() {
    let (server, namespace) = (PostgresServer::start(), unused_name());
    let store = open(&server, &namespace);
    let tick = store.ping().await.unwrap().at;
    let first = win(&store, "job", &claim_now("a", LONG)).await;
    store.release("job", &first, &ending(RunOutcome::Succeeded)).await.unwrap();

    let mut other = server.client().await;
    let holding = other.transaction().await.unwrap();
    holding.batch_execute("SELECT 1 FROM job_lock FOR UPDATE").await.unwrap();
    let claim = claim("b", tick);
    let (interrupted, ()) = tokio::join!(store.claim("job", &claim), async {
        end_all_sessions_that_wait(&server).await;
    });
    let error = interrupted.expect_err("its session was ended");
    assert_eq!(error.kind(), StoreErrorKind::Unreachable, "{error}");
    holding.rollback().await.unwrap();

    let lease = win(&store, "job", &claim).await;
    assert!(lease.fence > first.fence);
    assert_eq!(store.history("job").await.unwrap().reply.runs.len(), 1);
}

async fn end_all_sessions_that_wait(server: &PostgresServer) {
    let client = server.client().await;
    let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
        WHERE application_name = 'singleton-jobs' AND wait_event_type = 'Lock'";
    while client.query_typed(end, &[]).await.unwrap()[0].get::<_, i64>(0) == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_that_are_repeated_while_sessions_end_at_any_instant_win_once() {
    let (server, namespace) = (PostgresServer::start(), unused_name());
    let store = open(&server, &namespace);
    store.ping().await.unwrap();
    let killer = server.client().await;
    let killing = tokio::spawn(async move {
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'singleton-jobs'";
        for round in 0..100_u64 {
            killer.query_typed(end, &[]).await.unwrap();
            tokio::time::sleep(Duration::from_micros(round * 3_779 % 30_000)).await;
        }
    });
    let (mut errors, mut last_fence, mut runs) = (0, 0, 0);
    while !killing.is_finished() {
        let claim = claim_now("a", LONG);
        let lease = loop {
            match store.claim("job", &claim).await {
                Ok(answer) => match answer.reply.decision {
                    ClaimDecision::Won(won) => break won.lease,
                    reply => panic!("nobody else claims, but: {reply:?}"),
                },
                Err(error) if error.kind() == StoreErrorKind::Unreachable => errors += 1,
                Err(error) => panic!("{error}"),
            }
        };
        assert!(lease.fence > last_fence);
        last_fence = lease.fence;
        while let Err(error) = store.release("job", &lease, &ending(RunOutcome::Succeeded)).await {
            assert_eq!(error.kind(), StoreErrorKind::Unreachable, "{error}");
            errors += 1;
        }
        runs += 1;
    }
    killing.await.unwrap();
    println!("{runs} runs, {errors} errors");
    assert!(errors > 0, "no session was ended in the middle of a step");
    let stats = store.history("job").await.unwrap().reply.stats;
    assert_eq!((stats.runs, stats.successes), (runs, runs));
}

#[tokio::test]
async fn a_sessions_time_zone_does_not_matter() {
    let (server, namespace) = (PostgresServer::shared(), unused_name());
    let zoned = |zone: &str| {
        let url = format!("{}?options=-c%20timezone%3D{zone}", server.url());
        open_url(&url, &namespace)
    };
    let (east, west) = (zoned("Asia/Kolkata"), zoned("America/St_Johns"));
    let (earlier, later) = (east.ping().await.unwrap().at, west.ping().await.unwrap().at);
    assert!(later >= earlier && later.since(earlier) < LONG, "{earlier}, {later}");
    let lease = win(&east, "job", &claim_now("a", LONG)).await;
    let held = holder(claim_on(&west, "job", &claim_now("b", LONG)).await);
    assert_eq!(held.since, Some(lease.since));
    assert!(held.remaining.is_some_and(|rest| rest <= LONG + Duration::from_millis(1)), "{held:?}");
}

#[tokio::test]
async fn a_restarted_server_is_found_again_and_has_forgotten_nothing() {
    let (mut server, namespace) = (PostgresServer::start(), unused_name());
    let store = open(&server, &namespace);
    let tick = store.ping().await.unwrap().at;
    let lease = win(&store, "job", &claim("a", tick)).await;
    server.kill();
    let error = store.ping().await.expect_err("it is gone");
    assert_eq!(error.kind(), StoreErrorKind::Unreachable, "{error}");
    server.restart();
    // The connection's end may have gone unnoticed.
    let _noticed = store.ping().await;
    let reply = claim_on(&store, "job", &claim("b", tick)).await;
    assert!(matches!(reply, ClaimDecision::Taken(_)), "{reply:?}");
    store.extend("job", &lease).await.expect("extend");
    store.release("job", &lease, &ending(RunOutcome::Succeeded)).await.expect("release");
    assert_eq!(store.history("job").await.unwrap().reply.stats.successes, 1);
}

#[tokio::test]
async fn many_callers_share_one_session() {
    let (server, namespace) = (PostgresServer::start(), unused_name());
    let store = open(&server, &namespace);
    let callers: Vec<_> = (0..50)
        .map(|number| {
            let store = store.clone();
            tokio::spawn(async move { win(&store, &format!("job-{number}"), &claim_now("a", LONG)).await })
        })
        .collect();
    for caller in callers {
        caller.await.expect("a win");
    }
    let sessions = "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1";
    let rows = server.client().await.query_typed(sessions, &[(&"singleton-jobs", Type::TEXT)]).await.unwrap();
    assert_eq!(rows[0].get::<_, i64>(0), 1);
}

/// A table that an administrator has locked.
#[tokio::test]
async fn look_waits_only_briefly_for_a_locked_table_and_leaves_no_session_behind() {
    const WITHIN: Duration = Duration::from_millis(1_100);
    let (server, schema) = (PostgresServer::shared(), unused_name());
    let url = format!("{}?schema={schema}&application_name={schema}", server.url());
    let store = store_at(&url, "own");
    store.look("key").await.expect("the tables are made");
    let mut other = server.client().await;
    let blocking = other.transaction().await.unwrap();
    blocking.batch_execute(&format!("LOCK TABLE {schema}.job_lock")).await.unwrap();
    for _ in 0..4 {
        let begun = Instant::now();
        let looking = tokio::time::timeout(WITHIN, store.look("key"));
        let beside = async {
            tokio::time::sleep(WITHIN / 4).await;
            store.notes(Topic::Servers).await.expect("another table is not locked");
            begun.elapsed()
        };
        let (looked, took) = tokio::join!(looking, beside);
        assert!(looked.is_err(), "the table is locked");
        assert!(took < 2 * WITHIN, "the other request took {took:?}");
    }
    tokio::time::sleep(WITHIN / 4).await;
    let waiting = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = '{schema}' AND wait_event_type = 'Lock'"
    );
    let waiting: i64 = blocking.query_typed(&waiting, &[]).await.unwrap()[0].get(0);
    assert_eq!(waiting, 0, "nobody waits for their answers");
    blocking.rollback().await.unwrap();
    store.look("key").await.expect("the table is free");
}

/// The row is not visible before the standby has it, and the statement is never cancelled: then it would be answered as
/// if the standby had it.
#[tokio::test]
async fn swap_that_waits_for_a_standby_grants_nothing_and_blocks_no_other_request() {
    let (server, namespace) = (PostgresServer::start(), unused_name());
    let patience = Duration::from_millis(300);
    let store = store_at(&server.url(), &namespace).with_timeouts(Duration::from_secs(5), patience);
    let change = Change { state: Some(Arc::default()), ..Change::default() };
    let swap = Swap { expected: None, expected_lock: None, nonce: 3, change };
    assert!(matches!(store.swap("other", &swap).await.expect("no standby yet"), SwapReply::Swapped(_)));
    let client = server.client().await;
    client.batch_execute("ALTER SYSTEM SET synchronous_standby_names = 'gone'").await.unwrap();
    client.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    let error = store.swap("key", &swap).await.expect_err("the standby does not have it");
    assert_eq!(error.kind(), StoreErrorKind::TimedOut, "{error}");
    assert_eq!(store.look("key").await.expect("over another connection").version, None);
}

#[tokio::test]
async fn prepared_statement_outlives_the_change_of_a_column() {
    let (server, schema) = (PostgresServer::shared(), unused_name());
    let store = store_at(&format!("{}?schema={schema}", server.url()), "own");
    store.look("key").await.expect("the tables are made");
    store.look("key").await.expect("and it is prepared");
    let alter = format!("ALTER TABLE {schema}.job_lock ALTER version TYPE varchar");
    server.client().await.batch_execute(&alter).await.unwrap();
    store.look("key").await.expect("it is sent as any other statement");
}

#[tokio::test]
async fn session_prepares_looks_and_swaps_once_and_executes_them_for_any_key() {
    let server = PostgresServer::shared();
    for quoting in ["on", "off"] {
        let name = unused_name();
        let options = format!("options=-c%20standard_conforming_strings%3D{quoting}&application_name={name}");
        let store = store_at(&format!("{}?{options}", server.url()), &unused_name());
        store.look("key").await.expect("the tables are made");
        let client = server.client().await;
        for key in ["key", "'; DROP TABLE job_lock --", r"\', '\", r"\x41", "世界"] {
            let change = Change { state: Some(Arc::default()), ..Change::default() };
            let swap = Swap { expected: None, expected_lock: None, nonce: 3, change };
            assert!(matches!(store.swap(key, &swap).await.expect("swap"), SwapReply::Swapped(_)));
            assert!(store.look(key).await.expect("look").version.is_some(), "{key}");
            assert_eq!(store.look(&format!("{key}'")).await.expect("look").version, None);
            let last = format!("SELECT query FROM pg_stat_activity WHERE application_name = '{name}'");
            let last: String = client.query_typed(&last, &[]).await.unwrap()[0].get(0);
            assert!(last.contains("; EXECUTE jobs_") && !last.contains("PREPARE"), "{last}");
        }
    }
}

#[tokio::test]
async fn claim_extension_and_release_cost_one_round_trip_each() {
    let (server, namespace) = (PostgresServer::shared(), unused_name());
    let proxy = Proxy::before(server.port(), Duration::ZERO).await;
    let store = open_url(&format!("postgres://postgres@127.0.0.1:{}/postgres", proxy.port()), &namespace);
    // A session prepares each of its statements once.
    let warm_up = claim_what("a", LONG, ClaimPurpose::Lock);
    let mut held = store.acquire("key", &warm_up).await.unwrap().expect("a win");
    held.extend().await.expect("an extension");
    held.release(&ending(RunOutcome::Succeeded)).await.expect("a release");
    for what in [ClaimPurpose::Lock, ClaimPurpose::Leader] {
        // Behind the first one, whatever is sent after the last release is answered before the second one.
        for _ in 0..2 {
            store.ping().await.expect("a connection");
        }
        proxy.strike(&[]);
        let mut held = store.acquire("key", &claim_what("a", LONG, what)).await.unwrap().expect("a win");
        assert_eq!(proxy.answers(), 1);
        assert!(matches!(held.extend().await.unwrap(), ExtendReply::Kept { .. }));
        assert_eq!(proxy.answers(), 2);
        assert!(matches!(held.extend().await.unwrap(), ExtendReply::Kept { .. }));
        assert_eq!(proxy.answers(), 3);
        let released = held.release(&ending(RunOutcome::Succeeded)).await.unwrap();
        assert_eq!((released, proxy.answers()), (ReleaseReply::Released, 4));
    }
}

/// PgBouncer 1.18 hands the answers that a client did not wait for to the next one, if that client had sent several messages.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn process_that_is_killed_leaves_no_answer_to_another_client_of_a_pooler() {
    let (pooler, namespace) = (Pooler::shared(), unused_name());
    let bystanders: Vec<_> = (0..3)
        .map(|bystander| {
            tokio::spawn(async move {
                let (client, connection) = tokio_postgres::connect(&pooler.url(), NoTls).await.unwrap();
                tokio::spawn(connection);
                for number in 0..4_000_i64 {
                    let own = number * 10 + bystander;
                    let rows = client.simple_query(&format!("SELECT {own}")).await.expect("an answer");
                    let row = rows.iter().find_map(|message| match message {
                        SimpleQueryMessage::Row(row) => row.get(0),
                        _ => None,
                    });
                    assert_eq!(row, Some(&*own.to_string()), "the answer to another client's statement");
                }
            })
        })
        .collect();
    // Each in a runtime of its own, which ends with its connection: as if the process were killed.
    let killed = tokio::task::spawn_blocking(move || {
        for round in 0..100_u64 {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let store = Arc::new(store_at(&pooler.url(), &namespace));
                store.look("key").await.expect("a connection");
                for _ in 0..50 {
                    let store = Arc::clone(&store);
                    tokio::spawn(async move { store.look("key").await.map(drop) });
                }
                tokio::time::sleep(Duration::from_micros(round * 37 % 1_000)).await;
            });
        }
    });
    killed.await.expect("a connection each");
    for bystander in bystanders {
        bystander.await.expect("its own answers");
    }
}

/// A caller that has the turn and finds the connection abandoned drops it: others wait for their turn all the time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn abandoned_connection_is_dropped_although_many_callers_wait_for_it() {
    let (server, schema) = (PostgresServer::shared(), unused_name());
    let store = Arc::new(store_at(&format!("{}?schema={schema}", server.url()), "own"));
    store.look("key").await.expect("the tables are made");
    let mut other = server.client().await;
    for _ in 0..30 {
        let blocking = other.transaction().await.unwrap();
        blocking.batch_execute(&format!("LOCK TABLE {schema}.job_lock")).await.unwrap();
        let (first, behind) = (store.look("key"), Duration::from_millis(20));
        let callers = async {
            tokio::time::sleep(behind / 4).await;
            let notes = (0..50).map(|_| {
                let store = Arc::clone(&store);
                tokio::spawn(async move { store.notes(Topic::Servers).await.map(drop) })
            });
            notes.collect::<Vec<_>>()
        };
        // It is dropped while it waits for the lock, and the others wait for their turns.
        let (dropped, callers) = tokio::join!(tokio::time::timeout(behind, first), callers);
        let begun = Instant::now();
        for caller in callers {
            caller.await.unwrap().expect("another table is not locked");
        }
        assert!(dropped.is_err(), "the table is locked");
        assert!(begun.elapsed() < Duration::from_secs(10), "they took {:?}", begun.elapsed());
        blocking.rollback().await.unwrap();
    }
}
