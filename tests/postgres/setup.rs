//! Tables and functions are made once, by whoever comes first and may.

use std::time::Duration;

use jobs::store::postgres::PostgresStore;
use jobs::store::{
    Announcement, Claim, ClaimReply, RunOutcome, RunRequest, Store, StoreError, StoreErrorKind, What,
};

use super::support::bench::{LONG, claim, claim_now, ending, lease};
use super::support::postgres_server::{PATIENCE, PostgresServer};
use super::{claim_for, open_url, unused_name, win};

fn in_schema(server: &PostgresServer, user: &str, schema: &str) -> PostgresStore {
    let url = format!("{}?schema={schema}", server.url_of(user));
    PostgresStore::open(&url, None).expect("a valid URL").with_timeouts(PATIENCE, PATIENCE)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_servers_that_start_at_once_make_the_tables_once() {
    let server = PostgresServer::shared();
    for _ in 0..10 {
        let schema = unused_name();
        let starting: Vec<_> = (0..10)
            .map(|_| {
                let store = in_schema(server, "postgres", &schema);
                tokio::spawn(async move { store.claim("job", &claim_now("a", LONG)).await })
            })
            .collect();
        let mut won = 0;
        for start in starting {
            let reply = start.await.expect("no panic").expect("claim").reply.decision;
            won += u32::from(matches!(reply, ClaimReply::Won(_)));
        }
        assert_eq!(won, 1);
    }
}

#[tokio::test]
async fn schemas_are_separate() {
    let server = PostgresServer::shared();
    let (one, other) = (unused_name(), format!("{}-With_Capitals", unused_name()));
    for schema in [&one, &other] {
        win(&in_schema(server, "postgres", schema), "job", &claim_now("a", LONG)).await;
    }
}

/// Everything that is ever done with a key, and by a fleet.
async fn whole_life(store: &PostgresStore) -> Result<(), StoreError> {
    let tick = store.ping().await?.at;
    let win = async |claim: Claim| match store.claim("job", &claim).await?.reply.decision {
        ClaimReply::Won(won) => Ok(lease(&claim, won)),
        refusal => panic!("{refusal:?}"),
    };
    let slot = win(claim_for(What::Slot(1), "a", LONG)).await?;
    store.claim("job", &Claim { waits: true, ..claim_for(What::Slot(1), "b", LONG) }).await?;
    store.locks().await?;
    store.listen("job").await?;
    store.extend("job", &slot).await?;
    store.release("job", &slot, &ending(RunOutcome::Succeeded)).await?; // and tells who waits
    let first = win(claim_now("a", Duration::from_millis(200))).await?;
    store.extend("job", &first).await?;
    store.claim("job", &claim("b", tick)).await?; // skipped as held, on record
    tokio::time::sleep(Duration::from_millis(300)).await;
    let second = win(claim_now("b", LONG)).await?; // records the first as crashed
    store.release("job", &second, &ending(RunOutcome::Succeeded)).await?;
    win(claim_for(What::Lock, "a", LONG)).await?;
    store.break_lock("job", 1).await?;
    store.set_paused("job", true).await?;
    store.set_paused("job", false).await?;
    store.reset("job").await?;
    store.request("job", &RunRequest { id: "r".to_owned(), by: "a".to_owned(), ttl: LONG }).await?;
    let announcement = Announcement { server: "a".to_owned(), about: "{}".into(), ttl: Duration::ZERO };
    store.announce(&announcement).await?;
    store.servers().await?;
    store.leave("a").await?;
    store.history("job").await?;
    tokio::time::sleep(Duration::from_millis(5)).await;
    store.forget("job", Duration::ZERO).await.map(drop)
}

#[tokio::test]
async fn a_user_who_may_not_make_tables_is_told_what_to_run_and_that_suffices() {
    let server = PostgresServer::shared();
    let (administrator, schema) = (server.client().await, unused_name());
    let user = format!("user_{schema}");
    administrator.batch_execute(&format!("CREATE ROLE {user} LOGIN; CREATE SCHEMA {schema}")).await.unwrap();
    let store = in_schema(server, &user, &schema);

    for grant in ["SELECT 1", &format!("GRANT USAGE ON SCHEMA {schema} TO {user}")] {
        administrator.batch_execute(grant).await.unwrap();
        let refusal = store.ping().await.expect_err("neither the tables nor the right to make them");
        assert_eq!(refusal.kind(), StoreErrorKind::Refused);
        assert!(refusal.to_string().contains("setup_sql"), "{refusal}");
    }
    administrator.batch_execute(&store.setup_sql()).await.expect("the administrator may");
    whole_life(&store).await.expect("what was granted suffices");

    let tables = ["job_lock", "job_slot", "job_run", "job_skip", "job_server", "job_request"];
    for table in tables {
        let take = format!("REVOKE ALL ON {schema}.{table} FROM {user}");
        administrator.batch_execute(&take).await.unwrap();
        let refusal = whole_life(&store).await.expect_err(table);
        assert_eq!(refusal.kind(), StoreErrorKind::Refused);
        assert!(refusal.to_string().contains(table), "{refusal}");
        administrator.batch_execute(&store.setup_sql()).await.expect("it can be run again");
        administrator.batch_execute(&format!("DELETE FROM {schema}.job_lock")).await.unwrap();
    }
}

#[tokio::test]
async fn a_table_of_another_program_is_left_alone() {
    let server = PostgresServer::shared();
    let (administrator, schema) = (server.client().await, unused_name());
    let theirs = format!(
        "CREATE SCHEMA {schema}; CREATE TABLE {schema}.job_lock (job_name text PRIMARY KEY, created_at timestamp)"
    );
    administrator.batch_execute(&theirs).await.unwrap();
    let store = in_schema(server, "postgres", &schema);
    let refusal = store.claim("job", &claim_now("a", LONG)).await.expect_err("another program's table");
    assert_eq!(refusal.kind(), StoreErrorKind::Unreadable, "{refusal}");
    assert!(refusal.to_string().contains("?schema="), "{refusal}");
}

#[tokio::test]
async fn what_a_newer_version_wrote_is_unreadable_and_left_alone() {
    let (server, namespace) = (PostgresServer::shared(), unused_name());
    let store = open_url(&server.url(), &namespace);
    win(&store, "job", &claim_now("a", LONG)).await;
    let raise = format!("UPDATE job_lock SET format = 2 WHERE namespace = '{namespace}'");
    server.client().await.batch_execute(&raise).await.unwrap();
    let claimed = store.claim("job", &claim_now("b", LONG)).await.expect_err("a newer format");
    let paused = store.set_paused("job", true).await.expect_err("a newer format");
    let looked = store.history("job").await.expect_err("a newer format");
    assert_eq!([claimed, paused, looked].map(|error| error.kind()), [StoreErrorKind::Unreadable; 3]);
}
