//! Servers that run jobs over pools, and race.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jobs::Job;
use jobs::store::mysql::MysqlStore;
use jobs::store::postgres::PostgresStore;
use jobs::store::{ClaimDecision, Store, TickClaim};
use jobs::testing::store::Client;
use support::bench::{DAY, LONG, ask, claim_with};
use support::pools::{ApplicationPool, PoolKind};
use support::postgres_server::PATIENCE;
use tokio::sync::mpsc;

use super::{KEY, database_and_pool, on_every_pool, unused_name};

on_every_pool! {
    ten_servers_run_each_tick_once_over_pools_of_their_own
    one_of_many_claims_wins_over_pools_and_over_a_connection_of_its_own
}

/// A builder with a store over this pool.
fn builder(pool: &ApplicationPool, namespace: &str) -> jobs::Builder {
    let (builder, name) = (jobs::builder().without_annotated(), Some(namespace));
    match pool {
        ApplicationPool::DeadpoolPostgres(pool) => {
            builder.store(PostgresStore::from_pool(pool.clone(), name).expect("a runtime"))
        }
        ApplicationPool::SqlxPostgres(pool) => {
            builder.store(PostgresStore::from_sqlx(pool.clone(), name).expect("a runtime"))
        }
        ApplicationPool::MysqlAsync(pool) => {
            builder.store(MysqlStore::from_pool(pool.clone(), name).expect("a runtime"))
        }
        ApplicationPool::SqlxMysql(pool) => {
            builder.store(MysqlStore::from_sqlx(pool.clone(), name).expect("a runtime"))
        }
    }
}

/// Each with a scheduler's thread of its own. The pools outlive the schedulers.
async fn ten_servers_run_each_tick_once_over_pools_of_their_own(kind: PoolKind) {
    let (database, _) = database_and_pool(kind, 1).await;
    let namespace = unused_name();
    let (tell, mut told) = mpsc::unbounded_channel();
    let mut servers = Vec::new();
    for number in 0..10 {
        let (pool, tell) = (kind.pool(&database.url(), 2), tell.clone());
        let job = Job::builder("count-visitors")
            .every("500ms")
            .ttl(Duration::from_secs(30))
            .run(move |run| {
                let _nobody_listens_any_longer = tell.send(run.tick().expect("by its schedule"));
                async {}
            })
            .build()
            .expect("a job");
        let builder = builder(&pool, &namespace).server_id(format!("server-{number}")).job(job);
        servers.push((builder.start_all().await.expect("the pool lends"), pool));
    }
    let mut runs = BTreeMap::<_, u32>::new();
    while runs.len() < 12 {
        let tick = tokio::time::timeout(PATIENCE, told.recv()).await.expect("a run").expect("a tick");
        *runs.entry(tick).or_default() += 1;
    }
    for (jobs, _) in &servers {
        jobs.shutdown().await;
    }
    while let Ok(tick) = told.try_recv() {
        *runs.entry(tick).or_default() += 1;
    }
    assert!(runs.values().all(|runs| *runs == 1), "{runs:?}");
    for (_, pool) in &servers {
        assert_eq!(pool.ask("SELECT 7").await.as_deref(), Some("7"), "it outlives the scheduler");
    }
}

async fn one_of_many_claims_wins_over_pools_and_over_a_connection_of_its_own(kind: PoolKind) {
    let (database, _) = database_and_pool(kind, 1).await;
    let namespace = unused_name();
    let own: Arc<dyn Store> = if kind.is_postgres() {
        Arc::new(PostgresStore::open(&database.url(), Some(&namespace)).expect("a URL"))
    } else {
        Arc::new(MysqlStore::open(&database.url(), Some(&namespace)).expect("a URL"))
    };
    let pools: Vec<_> = (0..5).map(|_| kind.pool(&database.url(), 2)).collect();
    let mut stores: Vec<_> = pools.iter().map(|pool| Client::of(pool.store(&namespace))).collect();
    stores.push(Client::of(own));
    let tick = stores[0].ping().await.expect("an answer").at;
    for round in 0..60 {
        let key = format!("{KEY}-{round}");
        let claims = stores.iter().cloned().enumerate().map(|(number, store)| {
            let (key, claim) = (
                key.clone(),
                claim_with(&format!("server-{number}"), LONG, TickClaim { grace: DAY, ..ask(tick) }),
            );
            tokio::spawn(async move { store.claim(&key, &claim).await.expect("an answer").reply.decision })
        });
        let (mut won, mut others) = (0, Vec::new());
        for claim in claims.collect::<Vec<_>>() {
            match claim.await.expect("no panic") {
                ClaimDecision::Won(_) => won += 1,
                other => others.push(other),
            }
        }
        assert_eq!(won, 1, "round {round}: {others:?}");
    }
}
