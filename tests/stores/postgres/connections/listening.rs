//! Who listens for a key is notified when it is freed.

use std::future::poll_fn;
use std::time::Duration;

use jobs::history::RunOutcome;
use jobs::store::{ClaimPurpose, Subscription};
use jobs::testing::store::Client as Jobs;
use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, Client, NoTls};

use crate::postgres::{claim_on, open, open_url, unused_name, win};
use support::bench::{LONG, claim_what, ending, holder};
use support::postgres_server::{PATIENCE, PostgresServer};

async fn listen(client: &Jobs, key: &str) -> Subscription {
    client.store().listen(key).await.expect("listen").expect("PostgreSQL notifies")
}

/// Slots have a record of their own.
fn record_of(what: &ClaimPurpose, key: &str) -> String {
    if matches!(what, ClaimPurpose::Slot(_)) { format!("{key}#slots") } else { key.to_owned() }
}

async fn is_freed(listener: &mut Subscription) -> bool {
    tokio::time::timeout(PATIENCE, listener.notified()).await.expect("a word, of one kind or the other")
}

#[tokio::test]
async fn waiter_is_notified_of_a_release_and_of_a_broken_lock_over_another_connection() {
    let (server, namespace) = (PostgresServer::shared(), unused_name());
    let (holds, waits) = (open(server, &namespace), open(server, &namespace));
    for what in [ClaimPurpose::Lock, ClaimPurpose::Now, ClaimPurpose::Leader, ClaimPurpose::Slot(1)] {
        let mut listener = listen(&waits, &record_of(&what, "key")).await;
        for round in 0..2 {
            let lease = win(&holds, "key", &claim_what("holds", LONG, what.clone())).await;
            if round == 0 {
                holds.release("key", &lease, &ending(RunOutcome::Succeeded)).await.expect("release");
            } else {
                holds.break_lock("key", 1).await.expect("break_lock");
            }
            assert!(is_freed(&mut listener).await, "{what:?}");
        }
    }
}

/// What a program hears that listens by itself.
struct Overheard {
    client: Client,
    payloads: mpsc::UnboundedReceiver<String>,
}

impl Overheard {
    async fn begin(server: &PostgresServer) -> Self {
        let (client, mut connection) =
            tokio_postgres::connect(&server.url(), NoTls).await.expect("a connection");
        let (heard, payloads) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
                if let AsyncMessage::Notification(notification) = message {
                    let _nobody_is_left = heard.send(notification.payload().to_owned());
                }
            }
        });
        client.batch_execute("LISTEN jobs_freed").await.expect("LISTEN");
        Self { client, payloads }
    }

    /// All of a namespace up to now: messages come in the order in which they were sent.
    async fn of(&mut self, namespace: &str) -> Vec<String> {
        let mark = format!("up to here in {namespace}");
        self.client.batch_execute(&format!("NOTIFY jobs_freed, '{mark}'")).await.expect("NOTIFY");
        let mut heard = Vec::new();
        loop {
            let next = tokio::time::timeout(PATIENCE, self.payloads.recv()).await.expect("at least the mark");
            match next.expect("the connection stands") {
                payload if payload == mark => return heard,
                payload if payload.contains(&format!("/{namespace}/")) => heard.push(payload),
                _of_another_test => {}
            }
        }
    }
}

#[tokio::test]
async fn release_without_subscribers_sends_no_notification() {
    let (server, namespace) = (PostgresServer::shared(), unused_name());
    let (store, mut overheard) = (open(server, &namespace), Overheard::begin(server).await);
    let use_once = async |what: &ClaimPurpose| {
        let lease = win(&store, "key", &claim_what("holds", LONG, what.clone())).await;
        holder(claim_on(&store, "key", &claim_what("does-not-wait", LONG, what.clone())).await);
        store.release("key", &lease, &ending(RunOutcome::Succeeded)).await.expect("release");
        store.break_lock("key", 1).await.expect("break_lock");
    };
    let minutes_later = format!(
        "UPDATE job_note SET until = until - interval '2 minutes' WHERE namespace = '{namespace}' AND topic = 'waiting'"
    );
    for what in [ClaimPurpose::Lock, ClaimPurpose::Slot(1)] {
        use_once(&what).await;
        assert_eq!(overheard.of(&namespace).await, Vec::<String>::new());
        // The control.
        let record = record_of(&what, "key");
        listen(&store, &record).await;
        use_once(&what).await;
        assert_eq!(overheard.of(&namespace).await, [format!("public/{namespace}/{record}")]);
        server.client().await.batch_execute(&minutes_later).await.unwrap();
        use_once(&what).await;
        assert_eq!(
            overheard.of(&namespace).await,
            Vec::<String>::new(),
            "long after the last one has listened"
        );
    }
}

#[tokio::test]
async fn waiting_is_recorded_rarely_and_outside_of_the_record() {
    let (server, namespace) = (PostgresServer::shared(), unused_name());
    let (store, client) = (open(server, &namespace), server.client().await);
    for what in [ClaimPurpose::Lock, ClaimPurpose::Slot(1)] {
        let key = record_of(&what, what.kind().as_str());
        win(&store, what.kind().as_str(), &claim_what("holds", LONG, what.clone())).await;
        let versions = async |table: &str, column: &str| {
            let statement = format!(
                "SELECT xmin::text FROM {table} WHERE namespace = '{namespace}' AND {column} = '{key}'"
            );
            let rows = client.query_typed(&statement, &[]).await.unwrap();
            rows.iter().map(|row| row.get(0)).collect::<Vec<String>>()
        };
        let record = versions("job_lock", "job_name").await;
        assert_eq!((record.len(), versions("job_note", "name").await.len()), (1, 0));
        listen(&store, &key).await;
        let mark = versions("job_note", "name").await;
        assert_eq!(mark.len(), 1);
        for _ in 0..3 {
            listen(&store, &key).await;
        }
        assert_eq!(versions("job_note", "name").await, mark);
        let later = format!(
            "UPDATE job_note SET until = until - interval '61 seconds' WHERE namespace = '{namespace}'"
        );
        client.batch_execute(&later).await.unwrap();
        let aged = versions("job_note", "name").await;
        listen(&store, &key).await;
        assert_ne!(versions("job_note", "name").await, aged, "it lasts for less than a minute");
        assert_eq!(versions("job_lock", "job_name").await, record);
    }
}

/// The sessions of the store that listen.
fn sessions(namespace: &str) -> String {
    format!("pg_stat_activity WHERE application_name = '{namespace}' AND query LIKE 'LISTEN %'")
}

#[tokio::test]
async fn subscriptions_share_one_session_and_survive_its_end() {
    let (server, namespace) = (PostgresServer::shared(), unused_name());
    let store = open_url(&format!("{}?application_name={namespace}", server.url()), &namespace);
    let client = server.client().await;
    let mut listeners = Vec::new();
    for number in 0..20 {
        listeners.push(listen(&store, &format!("key-{number}")).await);
    }
    let count = format!("SELECT count(*) FROM {}", sessions(&namespace));
    assert_eq!(client.query_typed(&count, &[]).await.unwrap()[0].get::<_, i64>(0), 1);

    let end = format!("SELECT pg_terminate_backend(pid) FROM {}", sessions(&namespace));
    for round in 0..3 {
        client.query_typed(&end, &[]).await.unwrap();
        for listener in &mut listeners {
            assert!(!is_freed(listener).await, "who cannot hear any more is told so");
        }
        let key = format!("again-{round}");
        let lease = win(&store, &key, &claim_what("holds", LONG, ClaimPurpose::Lock)).await;
        let mut listener = listen(&store, &key).await;
        store.release(&key, &lease, &ending(RunOutcome::Succeeded)).await.expect("release");
        assert!(is_freed(&mut listener).await);
        listeners = vec![listener];
    }
    assert_eq!(client.query_typed(&count, &[]).await.unwrap()[0].get::<_, i64>(0), 1);
}

#[tokio::test]
async fn subscription_is_notified_of_its_own_key_only() {
    let (server, namespace) = (PostgresServer::shared(), unused_name());
    let (store, elsewhere) = (open(server, &namespace), open(server, &unused_name()));
    let mut deaf = [listen(&store, "other").await, listen(&elsewhere, "key").await];
    let mut listener = listen(&elsewhere, "other").await;
    for (store, key) in [(&store, "key"), (&elsewhere, "other")] {
        let lease = win(store, key, &claim_what("holds", LONG, ClaimPurpose::Lock)).await;
        store.release(key, &lease, &ending(RunOutcome::Succeeded)).await.expect("release");
    }
    // The one that came last has come, and so have all before it.
    assert!(is_freed(&mut listener).await);
    listen(&store, "key").await;
    for deaf in &mut deaf {
        assert!(tokio::time::timeout(Duration::ZERO, deaf.notified()).await.is_err());
    }
}

/// A swap that is being applied does not see who begins to listen now. The one who listens still finds the key held.
#[tokio::test]
async fn subscription_during_a_release_is_notified_of_it() {
    let (server, schema) = (PostgresServer::shared(), unused_name());
    let url = format!("{}?schema={schema}&application_name={schema}", server.url());
    let (holds, waits, client) = (open_url(&url, "own"), open_url(&url, "own"), server.client().await);
    listen(&waits, "another").await;
    let slow = format!(
        "CREATE FUNCTION {schema}.slow() RETURNS trigger LANGUAGE plpgsql AS
             'BEGIN PERFORM pg_sleep(0.5); IF TG_OP = ''DELETE'' THEN RETURN OLD; END IF; RETURN NEW; END';
         CREATE TRIGGER slow BEFORE UPDATE OR DELETE ON {schema}.job_lock
         FOR EACH ROW EXECUTE FUNCTION {schema}.slow()"
    );
    client.batch_execute(&slow).await.unwrap();
    let is_slow = format!(
        "SELECT FROM pg_stat_activity WHERE application_name = '{schema}' AND wait_event = 'PgSleep'"
    );
    for what in [ClaimPurpose::Lock, ClaimPurpose::Slot(1)] {
        let key = record_of(&what, "key");
        let lease = win(&holds, "key", &claim_what("holds", LONG, what)).await;
        let end = ending(RunOutcome::Succeeded);
        let releasing = holds.release("key", &lease, &end);
        let waiting = async {
            while client.query_typed(&is_slow, &[]).await.unwrap().is_empty() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            let mut listener = listen(&waits, &key).await;
            let look = waits.store().look(&key).await.expect("look");
            assert!(look.state.claimant.is_some() || !look.state.slots.is_empty(), "it is held: {look:?}");
            assert!(
                !client.query_typed(&is_slow, &[]).await.unwrap().is_empty(),
                "the release is not over yet"
            );
            tokio::time::timeout(Duration::from_secs(5), listener.notified()).await.expect("a notification")
        };
        let (released, freed) = tokio::join!(releasing, waiting);
        released.expect("release");
        assert!(freed);
    }
}

#[tokio::test]
async fn release_does_not_wait_until_others_are_notified() {
    let (server, schema) = (PostgresServer::shared(), unused_name());
    let store = open_url(&format!("{}?schema={schema}", server.url()), "own");
    let lease = win(&store, "key", &claim_what("holds", LONG, ClaimPurpose::Lock)).await;
    let mut listener = listen(&store, "key").await;
    let mut other = server.client().await;
    let blocking = other.transaction().await.unwrap();
    blocking.batch_execute(&format!("LOCK TABLE {schema}.job_note")).await.unwrap();
    let end = ending(RunOutcome::Succeeded);
    let released = tokio::time::timeout(Duration::from_secs(5), store.release("key", &lease, &end)).await;
    released.expect("it is answered while the table is locked").expect("release");
    blocking.rollback().await.unwrap();
    assert!(is_freed(&mut listener).await);
}
