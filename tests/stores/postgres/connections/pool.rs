//! Connections that the application lends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod, Runtime};
use jobs::Job;
use jobs::store::postgres::{BorrowFuture, BorrowedConnection, ConnectionSource, PostgresStore};
use jobs::store::{ClaimDecision, StoreErrorKind};
use jobs::testing::store::Client as Jobs;
use tokio::sync::mpsc;
use tokio_postgres::{Client, NoTls};

use crate::postgres::{claim_on, unused_name};
use support::bench::{LONG, claim_now};
use support::postgres_server::{PATIENCE, PostgresServer};

fn pool(server: &PostgresServer, size: usize) -> Pool {
    let mut config: tokio_postgres::Config = server.url().parse().unwrap();
    config.application_name("the-application");
    let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let manager = Manager::from_config(config, NoTls, recycling);
    Pool::builder(manager).max_size(size).runtime(Runtime::Tokio1).build().unwrap()
}

fn store_on(pool: &Pool, namespace: &str) -> PostgresStore {
    let store = PostgresStore::from_pool(pool.clone(), Some(namespace)).expect("inside a runtime");
    store.with_timeouts(PATIENCE, PATIENCE)
}

fn open_on(pool: &Pool, namespace: &str) -> Jobs {
    Jobs::new(store_on(pool, namespace))
}

#[tokio::test]
async fn a_whole_server_runs_its_jobs_over_the_applications_pool() {
    let (server, namespace) = (PostgresServer::start(), unused_name());
    let pool = pool(&server, 2);
    let (tell, mut told) = mpsc::unbounded_channel();
    let job = Job::builder("import-products")
        .every("100ms")
        .run(move |run| {
            let _nobody_listens_any_longer = tell.send(run.fence());
            async {}
        })
        .build()
        .unwrap();
    let builder = jobs::builder().without_annotated().store(store_on(&pool, &namespace)).job(job);
    let jobs = builder.start_all().await.expect("the pool lends");
    for _ in 0..5 {
        tokio::time::timeout(PATIENCE, told.recv()).await.expect("a run").expect("a fence");
    }
    let sessions = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'singleton-jobs'";
    let application = pool.get().await.expect("the application is served too");
    let own: i64 = application.query_typed(sessions, &[]).await.unwrap()[0].get(0);
    assert_eq!(own, 0, "it has no connection of its own");
    drop(application);
    jobs.shutdown().await;
    // The scheduler's thread is gone; what it had borrowed is as good as before.
    let status = pool.status();
    assert!(status.size >= 1 && status.size <= 2, "{status:?}");
    let again: Vec<_> = [pool.get().await.unwrap(), pool.get().await.unwrap()].into();
    for connection in &again {
        connection.query_typed("SELECT 1", &[]).await.expect("it outlives the scheduler");
    }
}

#[tokio::test]
async fn exhausted_pool_is_an_error_with_that_reason() {
    let (server, namespace) = (PostgresServer::shared(), unused_name());
    let pool = pool(server, 1);
    let store = open_on(&pool, &namespace);
    store.ping().await.expect("one is free");
    let taken = pool.get().await.unwrap();
    let hasty = Jobs::new(store_on(&pool, &namespace).with_timeouts(Duration::from_millis(100), PATIENCE));
    let error = hasty.ping().await.expect_err("none is free");
    assert_eq!(error.kind(), StoreErrorKind::TimedOut, "{error}");
    let said = error.to_string();
    assert!(said.starts_with("look failed on the application's PostgreSQL pool: "), "{said}");
    assert!(said.contains("all of them are in use") && said.contains("make the pool larger"), "{said}");
    // Whoever gave up does not stand in the queue.
    let waiting = || pool.status().waiting;
    while waiting() > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(taken);
    store.ping().await.expect("one is free again");

    let mut impatient = Pool::builder(Manager::new(server.url().parse().unwrap(), NoTls)).max_size(1);
    impatient = impatient.runtime(Runtime::Tokio1).wait_timeout(Some(Duration::from_millis(50)));
    let pool = impatient.build().unwrap();
    let _taken = pool.get().await.unwrap();
    let said = open_on(&pool, &namespace).ping().await.expect_err("none is free").to_string();
    assert!(said.contains("all 1 connections of the pool are in use"), "{said}");
}

/// A statement that nobody waits for any longer is still under way on its connection.
#[tokio::test]
async fn dropped_steps_do_not_spoil_connections_of_the_pool() {
    let (server, namespace) = (PostgresServer::start(), unused_name());
    let pool = pool(&server, 1);
    let store = open_on(&pool, &namespace);
    store.set_paused("job", false).await.expect("the server answers");
    store.set_paused("job", true).await.expect("the server answers");
    let mut other = server.client().await;
    let holding = other.transaction().await.unwrap();
    // A look waits for this one, too.
    holding.batch_execute("LOCK TABLE job_lock").await.unwrap();
    let session = async || -> i32 {
        let connection = pool.get().await.expect("a connection");
        connection.query_typed("SELECT pg_backend_pid()", &[]).await.expect("an answer")[0].get(0)
    };

    let first = session().await;
    assert_eq!(session().await, first, "what works is given back");
    // A statement waits longer for a lock.
    let hasty = Jobs::new(store_on(&pool, &namespace).with_timeouts(PATIENCE, Duration::from_millis(20)));
    let error = hasty.set_paused("job", false).await.expect_err("the table is locked");
    assert_eq!(error.kind(), StoreErrorKind::TimedOut, "{error}");
    let second = session().await;
    assert_ne!(second, first, "timed out, it left its statement to the next user");

    // On a busy machine it may be cancelled before it has borrowed anything.
    for attempt in 1.. {
        let cancelled =
            tokio::time::timeout(Duration::from_millis(100), store.set_paused("job", false)).await;
        assert!(cancelled.is_err(), "the table is locked");
        if session().await != second {
            break;
        }
        assert!(attempt < 20, "cancelled, it left its statement to the next user");
    }
    holding.rollback().await.unwrap();
    store.set_paused("job", false).await.expect("the table is free");
}

/// A source that lends its only connection, and takes note.
struct Only {
    client: Arc<Client>,
    discarded: Arc<AtomicU32>,
}

impl ConnectionSource for Only {
    fn location(&self) -> String {
        "postgres://only".to_owned()
    }

    fn connect(&self) -> BorrowFuture<'_> {
        let lent = Lent { client: Arc::clone(&self.client), discarded: Arc::clone(&self.discarded) };
        Box::pin(async { Ok(Box::new(lent) as Box<dyn BorrowedConnection>) })
    }
}

struct Lent {
    client: Arc<Client>,
    discarded: Arc<AtomicU32>,
}

impl BorrowedConnection for Lent {
    fn client(&self) -> &Client {
        &self.client
    }

    fn discard(self: Box<Self>) {
        self.discarded.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test]
async fn custom_source_works_and_gets_working_connections_back() {
    let (server, namespace) = (PostgresServer::shared(), unused_name());
    let discarded = Arc::new(AtomicU32::new(0));
    let only = Only { client: Arc::new(server.client().await), discarded: Arc::clone(&discarded) };
    let store = PostgresStore::from_source(only, Some(&namespace)).unwrap();
    let store = Jobs::new(store.with_timeouts(PATIENCE, PATIENCE).with_schema(&unused_name()).unwrap());
    let claim = claim_now("a", LONG);
    assert!(matches!(claim_on(&store, "job", &claim).await, ClaimDecision::Won(_)));
    store.claim("a\0", &claim).await.expect_err("a bad key");
    assert_eq!(
        discarded.load(Ordering::Relaxed),
        0,
        "an answer, also a refusal, leaves a connection as it was"
    );
}

/// A swap that waits for a locked row ends by itself, so its connection can be used again.
#[tokio::test]
async fn connection_of_a_swap_that_found_its_row_locked_returns_to_the_pool() {
    let (server, namespace) = (PostgresServer::start(), unused_name());
    let discarded = Arc::new(AtomicU32::new(0));
    let only = Only { client: Arc::new(server.client().await), discarded: Arc::clone(&discarded) };
    let store = PostgresStore::from_source(only, Some(&namespace)).unwrap();
    let store = Jobs::new(store.with_timeouts(PATIENCE, Duration::from_secs(1)));
    store.set_paused("job", true).await.expect("the server answers");
    let mut other = server.client().await;
    let holding = other.transaction().await.unwrap();
    holding.batch_execute("SELECT 1 FROM job_lock FOR UPDATE").await.unwrap();
    let error = store.set_paused("job", false).await.expect_err("the row is locked");
    assert_eq!(error.kind(), StoreErrorKind::TimedOut, "{error}");
    holding.rollback().await.unwrap();
    store.set_paused("job", false).await.expect("the row is free");
    assert_eq!(discarded.load(Ordering::Relaxed), 0);
}
