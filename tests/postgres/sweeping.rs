//! What has expired goes away, and nothing else does.

use std::time::{Duration, Instant};

use jobs::store::postgres::PostgresStore;
use jobs::store::{ClaimReply, Ending, ExtendReply, ReleaseReply, RunOutcome, Store, What, model};
use tokio_postgres::Client;

use super::support::bench::{DAY, LONG, claim, claim_now, ending, holder};
use super::support::postgres_server::{PATIENCE, PostgresServer};
use super::{claim_for, claim_on, open, open_url, unused_name, win};

const BRIEF: Duration = Duration::from_millis(20);

/// Does the work of so many keys once each, and returns how many rows there were at most.
async fn work_once(store: &PostgresStore, keys: u32, mut rows: impl AsyncFnMut() -> i64) -> i64 {
    let done = Ending { done_for: Some(BRIEF), ..ending(RunOutcome::Succeeded) };
    let mut most = 0;
    for number in 0..keys {
        let key = format!("invoice/{number}");
        let lease = win(store, &key, &claim_for(What::Once, "a", BRIEF)).await;
        store.release(&key, &lease, &done).await.expect("release");
        if number % 100 == 99 {
            most = most.max(rows().await);
        }
    }
    most
}

async fn count(client: &Client, of: &str) -> i64 {
    let statement = format!("SELECT count(*) FROM {of}");
    client.query_typed(&statement, &[]).await.expect(&statement)[0].get(0)
}

#[tokio::test]
async fn keys_that_are_made_from_data_do_not_pile_up_and_what_counts_stays() {
    let (server, namespace) = (PostgresServer::shared(), unused_name());
    let (store, client) = (open(server, &namespace), server.client().await);
    let now = store.ping().await.unwrap().at;
    let run = win(&store, "job", &claim("a", now)).await;
    store.release("job", &run, &ending(RunOutcome::Succeeded)).await.unwrap();
    store.set_paused("paused", true).await.unwrap();
    win(&store, "lock", &claim_for(What::Lock, "a", LONG * 10)).await;
    win(&store, "slots", &claim_for(What::Slot(1), "a", LONG * 10)).await;
    let once = win(&store, "done", &claim_for(What::Once, "a", BRIEF)).await;
    let done = Ending { done_for: Some(DAY), ..ending(RunOutcome::Succeeded) };
    store.release("done", &once, &done).await.unwrap();
    let later = now.plus(DAY).as_micros();
    let strangers = format!(
        "INSERT INTO job_lock (namespace, job_name, lock_token, lock_until) VALUES
         ('{namespace}', 'stranger/for-ever', 'theirs', NULL), ('{namespace}', 'stranger/for-long', 'theirs', {later}),
         ('{namespace}', 'stranger/before', 'theirs', {})",
        now.as_micros()
    );
    client.batch_execute(&strangers).await.unwrap();

    let theirs = format!("job_lock WHERE namespace = '{namespace}'");
    let most = work_once(&store, 2_000, async || count(&client, &theirs).await).await;
    println!("{most} rows at most");
    // Those that still count, and a few more: on a machine that stands still now and then, a few dozen.
    assert!(most < 600, "{most} rows");
    let records = count(&client, &format!("job_run WHERE namespace = '{namespace}'")).await;
    assert!(records < 600, "{records} records");

    assert_eq!(store.history("job").await.unwrap().reply.runs.len(), 1);
    assert!(store.history("paused").await.unwrap().reply.paused);
    holder(claim_on(&store, "lock", &claim_now("b", LONG)).await);
    holder(claim_on(&store, "slots", &claim_for(What::Slot(1), "b", LONG)).await);
    let again = claim_on(&store, "done", &claim_for(What::Once, "b", LONG)).await;
    assert!(matches!(again, ClaimReply::Done(_)), "{again:?}");
    for stranger in ["stranger/for-ever", "stranger/for-long"] {
        holder(claim_on(&store, stranger, &claim_for(What::Lock, "b", LONG)).await);
    }
    // The control: one that had expired is gone.
    assert_eq!(count(&client, &format!("{theirs} AND job_name = 'stranger/before'")).await, 0);
}

/// The control of the one above.
#[tokio::test]
async fn without_a_sweep_they_would_pile_up() {
    let (server, schema) = (PostgresServer::shared(), unused_name());
    let (store, client) =
        (open_url(&format!("{}?schema={schema}", server.url()), "own"), server.client().await);
    store.ping().await.expect("the tables are made");
    let nothing = format!(
        "CREATE OR REPLACE FUNCTION {schema}.jobs_sweep_v1(ns text, but_not text) RETURNS void LANGUAGE sql AS ''"
    );
    client.batch_execute(&nothing).await.unwrap();
    let table = format!("{schema}.job_lock");
    assert_eq!(work_once(&store, 200, async || count(&client, &table).await).await, 200);
}

#[tokio::test]
async fn a_step_that_finds_nothing_leaves_nothing_behind() {
    let (server, namespace) = (PostgresServer::shared(), unused_name());
    let (store, client) = (open(server, &namespace), server.client().await);
    for what in [What::Now, What::Lock, What::Slot(2)] {
        let mut lease = win(&store, "elsewhere", &claim_for(what, "a", LONG)).await;
        lease.until = lease.since;
        assert_eq!(store.extend("key", &lease).await.unwrap().reply, ExtendReply::Lost);
        lease.fence = model::UNKNOWN_FENCE;
        let released = store.release("key", &lease, &ending(RunOutcome::NotStarted)).await.unwrap();
        assert_eq!(released.reply, ReleaseReply::NotHeld);
        store.break_lock("elsewhere", 1).await.unwrap();
    }
    assert_eq!(store.break_lock("key", 1).await.unwrap().reply, []);
    store.set_paused("key", false).await.unwrap();
    store.reset("key").await.unwrap();
    store.forget("key", Duration::ZERO).await.unwrap();
    store.history("key").await.unwrap();
    assert_eq!(
        count(&client, &format!("job_lock WHERE namespace = '{namespace}' AND job_name = 'key'")).await,
        0
    );
}

#[tokio::test]
async fn a_jobs_row_changes_without_touching_an_index() {
    let (server, schema) = (PostgresServer::shared(), unused_name());
    let url = format!("{}?schema={schema}", server.url());
    let store = open_url(&url, "own");
    for _ in 0..100 {
        let mut run = win(&store, "job", &claim_now("a", LONG)).await;
        run.ttl *= 2;
        store.extend("job", &run).await.unwrap();
        store.release("job", &run, &ending(RunOutcome::Succeeded)).await.unwrap();
    }
    // A session tells what it did at its end.
    drop(store);
    let client = server.client().await;
    let statement = format!(
        "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE schemaname = '{schema}' AND relname = 'job_lock'"
    );
    let begun = Instant::now();
    let (updates, hot) = loop {
        let rows = client.query_typed(&statement, &[]).await.unwrap();
        let (updates, hot): (i64, i64) = (rows[0].get(0), rows[0].get(1));
        if updates >= 300 || begun.elapsed() > PATIENCE {
            break (updates, hot);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!(updates, 300);
    assert!(hot >= 290, "only {hot} of {updates} updates left the indexes alone");
}
