//! What has expired goes away, and nothing else does.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use jobs::history::{RunOutcome, Skip, SkipRecord};
use jobs::store::decide::UNKNOWN_FENCE;
use jobs::store::{
    Change, ClaimDecision, ClaimPurpose, Ending, ExtendReply, FenceChange, JobRecord, KeyState, Note,
    ReleaseReply, Swap, SwapReply, Topic,
};
use jobs::testing::store::Client as Jobs;
use tokio_postgres::Client;

use super::{ISOLATION_LEVELS, claim_on, open, open_url, unused_name, win};
use support::bench::{DAY, LONG, claim, claim_now, claim_what, ending, holder};
use support::pooler::Pooler;
use support::postgres_server::{PATIENCE, PostgresServer};

const BRIEF: Duration = Duration::from_millis(20);

/// Does the work of so many keys once each, and returns how many rows there were at most.
async fn work_once(store: &Jobs, keys: u32, mut rows: impl AsyncFnMut() -> i64) -> i64 {
    let done = Ending { done_for: Some(BRIEF), ..ending(RunOutcome::Succeeded) };
    let mut most = 0;
    for number in 0..keys {
        let key = format!("invoice/{number}");
        let lease = win(store, &key, &claim_what("a", BRIEF, ClaimPurpose::Once)).await;
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
async fn keys_made_from_data_do_not_pile_up_and_needed_rows_stay() {
    let (server, namespace) = (PostgresServer::shared(), unused_name());
    let (store, client) = (open(server, &namespace), server.client().await);
    let now = store.ping().await.unwrap().at;
    let run = win(&store, "job", &claim("a", now)).await;
    store.release("job", &run, &ending(RunOutcome::Succeeded)).await.unwrap();
    store.set_paused("paused", true).await.unwrap();
    win(&store, "lock", &claim_what("a", LONG * 10, ClaimPurpose::Lock)).await;
    win(&store, "slots", &claim_what("a", LONG * 10, ClaimPurpose::Slot(1))).await;
    let once = win(&store, "done", &claim_what("a", BRIEF, ClaimPurpose::Once)).await;
    let done = Ending { done_for: Some(DAY), ..ending(RunOutcome::Succeeded) };
    store.release("done", &once, &done).await.unwrap();

    let theirs = format!("job_lock WHERE namespace = '{namespace}'");
    let most = work_once(&store, 2_000, async || count(&client, &theirs).await).await;
    println!("{most} rows at most");
    // Those that still count, and a few more: on a machine that stands still now and then, a few dozen.
    assert!(most < 600, "{most} rows");
    let records = count(&client, &format!("job_record WHERE namespace = '{namespace}'")).await;
    assert_eq!(records, 1, "a manual lock leaves none");

    assert_eq!(store.history("job").await.unwrap().reply.runs.len(), 1);
    assert!(store.history("paused").await.unwrap().reply.pause.is_some());
    holder(claim_on(&store, "lock", &claim_now("b", LONG)).await);
    holder(claim_on(&store, "slots", &claim_what("b", LONG, ClaimPurpose::Slot(1))).await);
    let again = claim_on(&store, "done", &claim_what("b", LONG, ClaimPurpose::Once)).await;
    assert!(matches!(again, ClaimDecision::Done(_)), "{again:?}");
}

#[tokio::test]
async fn keys_made_from_data_do_not_pile_up_behind_a_pooler() {
    let (server, namespace) = (PostgresServer::shared(), unused_name());
    let (store, client) = (open_url(&Pooler::shared().url(), &namespace), server.client().await);
    let theirs = format!("job_lock WHERE namespace = '{namespace}'");
    let most = work_once(&store, 1_000, async || count(&client, &theirs).await).await;
    println!("{most} rows at most");
    assert!(most < 600, "{most} rows");
}

/// The control of the two above.
#[tokio::test]
async fn keys_made_from_data_pile_up_without_a_sweep() {
    let (server, schema) = (PostgresServer::shared(), unused_name());
    let (store, client) =
        (open_url(&format!("{}?schema={schema}", server.url()), "own"), server.client().await);
    store.ping().await.expect("the tables are made");
    let nothing_is_removed = format!(
        "CREATE FUNCTION {schema}.keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
         CREATE TRIGGER keep BEFORE DELETE ON {schema}.job_lock FOR EACH ROW EXECUTE FUNCTION {schema}.keep()"
    );
    client.batch_execute(&nothing_is_removed).await.unwrap();
    let table = format!("{schema}.job_lock");
    assert_eq!(work_once(&store, 200, async || count(&client, &table).await).await, 200);
}

#[tokio::test]
async fn heartbeat_removes_what_has_expired_with_its_records() {
    let (server, schema) = (PostgresServer::shared(), unused_name());
    for url in [server.url(), Pooler::shared().url()] {
        let (store, client) = (open_url(&format!("{url}?schema={schema}"), "own"), server.client().await);
        let at = store.ping().await.unwrap().at;
        let skip = SkipRecord::new(at, Skip::Held, "a", at);
        for (key, expires) in
            [("expires", Some(at + BRIEF)), ("expires-later", Some(at + DAY)), ("job", None)]
        {
            let change = Change {
                state: Some(Arc::new(KeyState { expires, ..KeyState::default() })),
                records: vec![JobRecord::Skip(skip.clone())],
                keep: 1,
                ..Change::default()
            };
            let swap = Swap { expected: None, expected_lock: None, nonce: 1, change };
            let reply = store.store().swap(key, &swap).await.unwrap();
            assert!(matches!(reply, SwapReply::Swapped(_)), "{reply:?}");
        }
        store.announce("short-lived", "{}", BRIEF).await.unwrap();
        tokio::time::sleep(2 * BRIEF).await;
        store.announce("a", "{}", LONG).await.unwrap();
        for (table, left) in [("job_lock", 2), ("job_record", 2), ("job_note", 1)] {
            let begun = Instant::now();
            // The sweep is a statement of its own behind the heartbeat's.
            let mut rows = count(&client, &format!("{schema}.{table}")).await;
            while rows != left && begun.elapsed() < PATIENCE {
                tokio::time::sleep(Duration::from_millis(5)).await;
                rows = count(&client, &format!("{schema}.{table}")).await;
            }
            assert_eq!(rows, left, "{table}");
        }
        client
            .batch_execute(&format!("DELETE FROM {schema}.job_lock; DELETE FROM {schema}.job_note"))
            .await
            .unwrap();
    }
}

/// After so many new keys that expire, a store sweeps.
const SWEPT_AFTER: u32 = 32;

#[tokio::test]
async fn swap_and_heartbeat_do_not_wait_for_the_sweep_that_they_start() {
    let (server, schema) = (PostgresServer::shared(), unused_name());
    let url = format!("{}?schema={schema}&application_name={schema}", server.url());
    let (store, client) = (open_url(&url, "own"), server.client().await);
    leave_expired(&store, "key-0").await;
    let slow = format!(
        "CREATE FUNCTION {schema}.slow() RETURNS trigger LANGUAGE plpgsql AS
             'BEGIN PERFORM pg_sleep(2); RETURN OLD; END';
         CREATE TRIGGER slow BEFORE DELETE ON {schema}.job_lock FOR EACH ROW EXECUTE FUNCTION {schema}.slow()"
    );
    client.batch_execute(&slow).await.unwrap();
    let sweeps = format!(
        "SELECT FROM pg_stat_activity WHERE application_name = '{schema}' AND wait_event = 'PgSleep'"
    );
    let is_sweeping = async || !client.query_typed(&sweeps, &[]).await.unwrap().is_empty();
    for number in 1..SWEPT_AFTER {
        let begun = Instant::now();
        leave_expired(&store, &format!("key-{number}")).await;
        assert!(begun.elapsed() < Duration::from_secs(1), "key {number} took {:?}", begun.elapsed());
    }
    // A statement of its own: on a busy machine it begins later.
    let begun = Instant::now();
    while !is_sweeping().await {
        assert!(begun.elapsed() < PATIENCE, "there is no sweep");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let another = open_url(&format!("{url}-2"), "own");
    another.ping().await.expect("a connection");
    let begun = Instant::now();
    let note = Note { name: "a".to_owned(), text: "".into() };
    another.store().put_note(Topic::Servers, &note, LONG).await.expect("put_note");
    assert!(begun.elapsed() < Duration::from_secs(1), "the heartbeat took {:?}", begun.elapsed());
}

/// Makes a record that has expired already, and returns its fence.
async fn leave_expired(store: &Jobs, key: &str) -> i64 {
    let at = store.ping().await.expect("ping").at;
    let change = Change {
        state: Some(Arc::new(KeyState { expires: Some(at), ..KeyState::default() })),
        fence: FenceChange::Next,
        ..Change::default()
    };
    let swap = Swap { expected: None, expected_lock: None, nonce: 1, change };
    match store.store().swap(key, &swap).await.expect("swap") {
        SwapReply::Swapped(swapped) => swapped.fence,
        SwapReply::Changed(look) => panic!("the key should be free, but: {look:?}"),
    }
}

/// Locks that are won the very moment in which their expired record is removed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn row_that_was_just_won_is_never_swept() {
    const WINNERS: u32 = 4;
    for level in ISOLATION_LEVELS {
        let url = format!("{}?{level}&schema={}", PostgresServer::shared().url(), unused_name());
        let sweepers: Vec<_> = (0..2)
            .map(|number| {
                let store = open_url(&url, "own");
                tokio::spawn(async move {
                    let note = Note { name: format!("sweeper-{number}"), text: "".into() };
                    loop {
                        store.store().put_note(Topic::Servers, &note, LONG).await.expect("put_note");
                    }
                })
            })
            .collect();
        let [found, swept] = [(); 2].map(|()| Arc::new(AtomicU32::new(0)));
        let begun = Instant::now();
        let winners: Vec<_> = (0..WINNERS)
            .map(|number| {
                let (store, key) = (open_url(&url, "own"), format!("lock-{number}"));
                let (found, swept) = (Arc::clone(&found), Arc::clone(&swept));
                tokio::spawn(async move {
                    let enough = || found.load(Ordering::SeqCst) >= 20 && swept.load(Ordering::SeqCst) >= 20;
                    while begun.elapsed() < Duration::from_secs(1)
                        || !(enough() || begun.elapsed() > PATIENCE)
                    {
                        let expired = leave_expired(&store, &key).await;
                        let is_there = store.store().look(&key).await.unwrap().version.is_some();
                        (if is_there { &found } else { &swept }).fetch_add(1, Ordering::SeqCst);
                        let lease = win(&store, &key, &claim_what("b", LONG, ClaimPurpose::Lock)).await;
                        assert!(lease.fence > expired);
                        for _ in 0..3 {
                            let state = store.store().look(&key).await.unwrap().state;
                            let token = state.claimant.as_ref().map(|claimant| &claimant.token);
                            assert_eq!(token, Some(&lease.token), "what was won is gone");
                        }
                        let reply = store.extend(&key, &lease).await.unwrap().reply;
                        assert!(matches!(reply, ExtendReply::Kept { .. }), "{reply:?}");
                        let reply =
                            store.release(&key, &lease, &ending(RunOutcome::Succeeded)).await.unwrap().reply;
                        assert_eq!(reply, ReleaseReply::Released);
                    }
                })
            })
            .collect();
        for winner in winners {
            winner.await.expect("no panic");
        }
        for sweeper in sweepers {
            assert!(!sweeper.is_finished(), "a sweep failed");
            sweeper.abort();
        }
        println!("{level}: {found:?} still had their record, {swept:?} had not");
        assert!(found.load(Ordering::SeqCst) >= 20 && swept.load(Ordering::SeqCst) >= 20);
    }
}

#[tokio::test]
async fn a_step_that_finds_nothing_leaves_nothing_behind() {
    let (server, namespace) = (PostgresServer::shared(), unused_name());
    let (store, client) = (open(server, &namespace), server.client().await);
    for what in [ClaimPurpose::Now, ClaimPurpose::Lock, ClaimPurpose::Slot(2)] {
        let mut lease = win(&store, "elsewhere", &claim_what("a", LONG, what)).await;
        lease.until = lease.since;
        assert_eq!(store.extend("key", &lease).await.unwrap().reply, ExtendReply::Lost { broken_by: None });
        lease.fence = UNKNOWN_FENCE;
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
        if updates >= 299 || begun.elapsed() > PATIENCE {
            break (updates, hot);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!(updates, 299, "the first claim inserts the row");
    // With an index on a column that changes it would be none. Now and then a full page cannot be pruned, because another test's
    // transaction still sees its old rows: then the new row goes to another page.
    assert!(hot * 4 >= updates * 3, "only {hot} of {updates} updates left the indexes alone");
}
