//! What a person reads in the tables, in a database of any encoding.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use jobs::history::{Progress, RunOutcome};
use jobs::store::{ClaimPurpose, Ending, StoreErrorKind};
use jobs::{Job, Run};
use tokio_postgres::{Client, NoTls};

use super::{open, open_url, unused_name, win};
use support::bench::{LONG, claim, claim_now, claim_what, ending};
use support::postgres_server::{PATIENCE, PostgresServer};

/// What the statement shows, column by column; NULL as "-".
async fn shown(client: &Client, statement: &str) -> Vec<Vec<String>> {
    let messages = client.simple_query(statement).await.expect(statement);
    let rows = messages.iter().filter_map(|message| match message {
        tokio_postgres::SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    rows.map(|row| (0..row.len()).map(|column| row.get(column).unwrap_or("-").to_owned()).collect()).collect()
}

#[tokio::test]
async fn table_shows_each_holder_until_its_release() {
    let (server, namespace) = (PostgresServer::shared(), unused_name());
    let (store, client) = (open(server, &namespace), server.client().await);
    let held = async || {
        let statement = format!(
            "SELECT job_name, server, since <= now(), until > now() AND until <= now() + interval '31 seconds'
             FROM job_lock WHERE namespace = '{namespace}' ORDER BY job_name"
        );
        shown(&client, &statement).await
    };
    let run = win(&store, "job", &claim_now("host-1", LONG)).await;
    let lock = win(&store, "lock", &claim_what("host-2", LONG, ClaimPurpose::Lock)).await;
    let slots = [win(&store, "slots", &claim_what("host-3", LONG, ClaimPurpose::Slot(2))).await, {
        win(&store, "slots", &claim_what("host-4", LONG, ClaimPurpose::Slot(2))).await
    }];
    assert_eq!(
        held().await,
        [
            ["job", "host-1", "t", "t"],
            ["lock", "host-2", "t", "t"],
            ["slots#slots", "host-3, host-4", "t", "t"]
        ]
    );
    let end = ending(RunOutcome::Succeeded);
    store.release("job", &run, &end).await.unwrap();
    store.release("lock", &lock, &end).await.unwrap();
    for slot in &slots {
        store.release("slots", slot, &end).await.unwrap();
    }
    let left = held().await;
    assert!(left.contains(&["job", "-", "-", "-"].map(str::to_owned).to_vec()), "{left:?}");
    assert!(left.iter().all(|row| row[1..] == ["-", "-", "-"]), "{left:?}");
}

#[tokio::test]
async fn records_have_instants_outcomes_and_an_error_only_if_there_was_one() {
    let (server, namespace) = (PostgresServer::shared(), unused_name());
    let (store, client) = (open(server, &namespace), server.client().await);
    let tick = store.ping().await.unwrap().at;
    let run = win(&store, "job", &claim("host-1", tick)).await;
    // Skipped, because the run goes on.
    store.claim("job", &claim("host-2", tick + Duration::from_micros(1))).await.unwrap();
    store.release("job", &run, &ending(RunOutcome::Succeeded)).await.unwrap();
    let failing = win(&store, "job", &claim_now("host-1", LONG)).await;
    let failed = Ending { error: Some("disk full: Größe".to_owned()), ..ending(RunOutcome::Failed) };
    store.release("job", &failing, &failed).await.unwrap();
    let statement = format!(
        "SELECT kind, tick IS NULL, server, started <= ended, ended <= now(), outcome, error FROM job_record
         WHERE namespace = '{namespace}' ORDER BY id"
    );
    assert_eq!(
        shown(&client, &statement).await,
        [
            ["skip", "f", "host-2", "-", "t", "held", "-"],
            ["run", "f", "host-1", "t", "t", "succeeded", "-"],
            ["run", "t", "host-1", "t", "t", "failed", "disk full: Gr??e"],
        ]
    );
}

/// A database whose encoding has no character for most of what people write.
async fn latin1(server: &PostgresServer) -> (String, Client) {
    let name = unused_name();
    let create =
        format!("CREATE DATABASE {name} ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0");
    server.client().await.batch_execute(&create).await.unwrap();
    let url = server.url().rsplit_once('/').map(|(server, _)| format!("{server}/{name}")).expect("a URL");
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.expect("a connection");
    tokio::spawn(async { drop(connection.await) });
    (url, client)
}

const FOREIGN: &str = "Größe, 世界 🎉 ' \\ \"";

#[tokio::test]
async fn texts_outside_the_encoding_of_the_database_are_kept() {
    let (url, client) = latin1(PostgresServer::shared()).await;
    let store = open_url(&url, "own");
    let mut lease = win(&store, "job", &claim_now(FOREIGN, LONG)).await;
    // PostgreSQL's text has no U+0000 in any encoding.
    let status = format!("{FOREIGN}\0");
    lease.progress = Some(Progress { done: 1, total: 2, status: status.clone() });
    store.extend("job", &lease).await.expect("extend");
    let current = store.history("job").await.unwrap().reply.current.expect("a run");
    assert_eq!(current.progress.map(|progress| progress.status).as_deref(), Some(status.as_str()));
    let end = Ending { error: Some(status.clone()), ..ending(RunOutcome::Failed) };
    store.release("job", &lease, &end).await.expect("release");
    let record = &store.history("job").await.unwrap().reply.runs[0];
    assert_eq!((record.error.as_deref(), record.server.as_str()), (Some(status.as_str()), FOREIGN));
    store.announce("a", FOREIGN, LONG).await.expect("announce");
    let errors = shown(&client, "SELECT error, record LIKE '%\\u4e16%' FROM job_record").await;
    assert_eq!(errors, [["Gr??e, ?? ? ' \\ \"?", "t"]]);
    // A name is sent as it is.
    let error = store.claim("世界", &claim_now("a", LONG)).await.expect_err("no such character");
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{error}");
}

/// Whole servers, up to a record.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn status_and_error_outside_the_encoding_neither_lose_the_lease_nor_repeat_the_run() {
    let (url, _) = latin1(PostgresServer::shared()).await;
    let [begun, ended] = [(); 2].map(|()| Arc::new(AtomicU32::new(0)));
    let mut servers = Vec::new();
    for _ in 0..2 {
        let counts = [Arc::clone(&begun), Arc::clone(&ended)];
        let job = Job::builder("import-products").every("100ms").ttl(Duration::from_secs(3));
        let job = job
            .run(move |run: Run| {
                let [begun, ended] = counts.clone();
                async move {
                    begun.fetch_add(1, Ordering::SeqCst);
                    run.set_status(FOREIGN);
                    // Longer than the lease: only keep-alives that carry the text bring it here.
                    tokio::time::sleep(Duration::from_millis(3_500)).await;
                    ended.fetch_add(1, Ordering::SeqCst);
                    Err::<(), _>(std::io::Error::other(FOREIGN))
                }
            })
            .build()
            .unwrap();
        let builder = jobs::builder().without_annotated().url(&url).job(job);
        servers.push(builder.start_all().await.expect("the store answers"));
    }
    tokio::time::timeout(PATIENCE, async {
        while ended.load(Ordering::SeqCst) < 2 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await
    .expect("two runs to their end");
    for jobs in &servers {
        jobs.pause("import-products").await.expect("pause");
    }
    tokio::time::timeout(PATIENCE, async {
        while begun.load(Ordering::SeqCst) > ended.load(Ordering::SeqCst)
            || servers[0].history("import-products").await.expect("history").current.is_some()
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await
    .expect("no run was cancelled");
    let history = servers[0].history("import-products").await.expect("history");
    for jobs in servers {
        jobs.shutdown().await;
    }
    let begun = begun.load(Ordering::SeqCst) as usize;
    assert_eq!(history.runs.len(), begun, "{history:?}");
    let mut ticks: Vec<_> = history.runs.iter().map(|run| run.tick).collect();
    ticks.dedup();
    assert_eq!(ticks.len(), begun, "a tick was run twice: {history:?}");
    for run in &history.runs {
        assert_eq!((run.outcome, run.attempt), (RunOutcome::Failed, 1), "{run:?}");
        assert!(run.error.as_deref().is_some_and(|error| error.contains(FOREIGN)), "{run:?}");
        assert_eq!(run.progress.as_ref().map(|progress| progress.status.as_str()), Some(FOREIGN));
    }
}
