//! Tables are made once, by whoever comes first and may.

use std::time::Duration;

use jobs::history::RunOutcome;
use jobs::store::postgres::PostgresStore;
use jobs::store::{Claim, ClaimDecision, ClaimPurpose, StoreError, StoreErrorKind};
use jobs::testing::store::Client;

use super::{open, open_url, unused_name, win};
use support::bench::{LONG, claim, claim_now, claim_what, ending};
use support::postgres_server::{PATIENCE, PostgresServer};

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
                let store = Client::new(in_schema(server, "postgres", &schema));
                tokio::spawn(async move { store.claim("job", &claim_now("a", LONG)).await })
            })
            .collect();
        let mut won = 0;
        for start in starting {
            let reply = start.await.expect("no panic").expect("claim").reply.decision;
            won += u32::from(matches!(reply, ClaimDecision::Won(_)));
        }
        assert_eq!(won, 1);
    }
}

#[tokio::test]
async fn schemas_are_separate() {
    let server = PostgresServer::shared();
    let (one, other) = (unused_name(), format!("{}-With_Capitals", unused_name()));
    for schema in [&one, &other] {
        win(&Client::new(in_schema(server, "postgres", schema)), "job", &claim_now("a", LONG)).await;
    }
}

/// Everything that is ever done with a key, and by a fleet.
async fn whole_life(store: &Client) -> Result<(), StoreError> {
    let tick = store.ping().await?.at;
    let win = async |claim: Claim| match store.claim("job", &claim).await?.reply.decision {
        ClaimDecision::Won(won) => Ok(won.lease),
        refusal => panic!("{refusal:?}"),
    };
    let slot = win(claim_what("a", LONG, ClaimPurpose::Slot(1))).await?;
    store.claim("job", &claim_what("b", LONG, ClaimPurpose::Slot(1))).await?;
    store.locks().await?;
    store.store().listen("job#slots").await?;
    store.extend("job", &slot).await?;
    store.release("job", &slot, &ending(RunOutcome::Succeeded)).await?; // and notifies who waits
    let first = win(claim_now("a", Duration::from_millis(200))).await?;
    store.extend("job", &first).await?;
    store.claim("job", &claim("b", tick)).await?; // skipped as held, on record
    tokio::time::sleep(Duration::from_millis(300)).await;
    let second = win(claim_now("b", LONG)).await?; // records the first as crashed
    store.release("job", &second, &ending(RunOutcome::Succeeded)).await?;
    win(claim_what("a", LONG, ClaimPurpose::Lock)).await?;
    store.break_lock("job", 1).await?;
    store.set_paused("job", true).await?;
    store.set_paused("job", false).await?;
    store.reset("job").await?;
    store.request("job", "r", "a", LONG).await?;
    store.announce("a", "{}", LONG).await?;
    store.servers().await?;
    store.leave("a").await?;
    store.history("job").await?;
    tokio::time::sleep(Duration::from_millis(5)).await;
    store.forget("job", Duration::ZERO).await.map(drop)
}

#[tokio::test]
async fn error_for_a_user_without_create_permission_has_the_statements_that_suffice() {
    let server = PostgresServer::shared();
    let (administrator, schema) = (server.client().await, unused_name());
    let user = format!("user_{schema}");
    administrator.batch_execute(&format!("CREATE ROLE {user} LOGIN; CREATE SCHEMA {schema}")).await.unwrap();
    let store = in_schema(server, &user, &schema);
    let setup = store.setup_sql();
    let store = Client::new(store);

    for grant in ["SELECT 1", &format!("GRANT USAGE ON SCHEMA {schema} TO {user}")] {
        administrator.batch_execute(grant).await.unwrap();
        let refusal = store.ping().await.expect_err("neither the tables nor the right to make them");
        assert_eq!(refusal.kind(), StoreErrorKind::Refused);
        assert!(refusal.to_string().contains("setup_sql"), "{refusal}");
    }
    administrator.batch_execute(&setup).await.expect("the administrator may");
    whole_life(&store).await.expect("what was granted suffices");

    let tables = ["job_lock", "job_record", "job_note"];
    for table in tables {
        let take = format!("REVOKE ALL ON {schema}.{table} FROM {user}");
        administrator.batch_execute(&take).await.unwrap();
        let refusal = whole_life(&store).await.expect_err(table);
        assert_eq!(refusal.kind(), StoreErrorKind::Refused);
        assert!(refusal.to_string().contains(table), "{refusal}");
        administrator.batch_execute(&setup).await.expect("it can be run again");
        administrator.batch_execute(&format!("DELETE FROM {schema}.job_lock")).await.unwrap();
    }
}

/// As the first version of this crate had it, and as another program may have.
#[tokio::test]
async fn table_of_an_older_version_or_another_program_is_not_changed() {
    let server = PostgresServer::shared();
    let administrator = server.client().await;
    for columns in [
        "namespace text, job_name text, format integer, fence bigint, server text, until bigint",
        "job_name text PRIMARY KEY, created_at timestamp",
    ] {
        let schema = unused_name();
        let theirs = format!("CREATE SCHEMA {schema}; CREATE TABLE {schema}.job_lock ({columns})");
        administrator.batch_execute(&theirs).await.unwrap();
        let store = in_schema(server, "postgres", &schema);
        let setup = store.setup_sql();
        let store = Client::new(store);
        for refusal in [
            store.claim("job", &claim_now("a", LONG)).await.expect_err("another table"),
            store
                .claim_first("lock", &claim_what("a", LONG, ClaimPurpose::Lock))
                .await
                .expect_err("another table"),
            store.locks().await.expect_err("another table"),
        ] {
            assert_eq!(refusal.kind(), StoreErrorKind::Unreadable, "{refusal}");
            let said = refusal.to_string();
            assert!(said.contains("older version") && said.contains("?schema="), "{said}");
        }
        administrator.batch_execute(&setup).await.expect_err("it changes no table that is there");
        administrator.batch_execute("ROLLBACK").await.unwrap();
        let tables = format!("SELECT count(*) FROM pg_tables WHERE schemaname = '{schema}'");
        assert_eq!(administrator.query_typed(&tables, &[]).await.unwrap()[0].get::<_, i64>(0), 1);
    }
}

#[tokio::test]
async fn data_of_another_version_is_unreadable_and_not_changed() {
    let (server, namespace) = (PostgresServer::shared(), unused_name());
    let (store, client) = (open(server, &namespace), server.client().await);
    for format in [1, 3] {
        let key = format!("job-{format}");
        win(&store, &key, &claim_now("a", LONG)).await;
        let theirs = format!("{{\"format\":{format},\"claimant\":[]}}");
        let write = format!(
            "UPDATE job_lock SET state = '{theirs}' WHERE namespace = '{namespace}' AND job_name = '{key}'"
        );
        client.batch_execute(&write).await.unwrap();
        let claimed = store.claim(&key, &claim_now("b", LONG)).await.expect_err("another format");
        let first = store
            .claim_first(&key, &claim_what("b", LONG, ClaimPurpose::Lock))
            .await
            .expect_err("another format");
        let paused = store.set_paused(&key, true).await.expect_err("another format");
        let looked = store.history(&key).await.expect_err("another format");
        for error in [claimed, first, paused, looked] {
            assert_eq!(error.kind(), StoreErrorKind::Unreadable, "{error}");
        }
        let read =
            format!("SELECT state FROM job_lock WHERE namespace = '{namespace}' AND job_name = '{key}'");
        assert_eq!(client.query_typed(&read, &[]).await.unwrap()[0].get::<_, String>(0), theirs);
    }
}

#[tokio::test]
async fn tables_that_are_dropped_are_made_again() {
    let (server, schema) = (PostgresServer::shared(), unused_name());
    let store = open_url(&format!("{}?schema={schema}", server.url()), "own");
    win(&store, "job", &claim_now("a", LONG)).await;
    server.client().await.batch_execute(&format!("DROP SCHEMA {schema} CASCADE")).await.unwrap();
    win(&store, "job", &claim_now("b", LONG)).await;
}
