//! The Redis store behind sentinels and on a cluster, as stores under test.

use crate::redis_cluster::RedisCluster;
use crate::redis_sentinel::RedisSentinel;
use crate::redis_server::RedisServer;
use crate::redis_subject;
use crate::subject::Subject;

/// The master that the sentinels name, with a namespace of the test's own.
pub async fn sentinel() -> Subject {
    let started = tokio::task::spawn_blocking(RedisSentinel::shared).await.expect("sentinels");
    let url = started.url("");
    let clients = vec![started.servers[0].client().await];
    redis_subject::at(url, clients, None)
}

/// The same, with every claim confirmed by the replica.
pub async fn sentinel_with_replicas() -> Subject {
    let started = tokio::task::spawn_blocking(RedisSentinel::shared).await.expect("sentinels");
    let url = started.url("?wait_replicas=1");
    let clients = vec![started.servers[0].client().await];
    redis_subject::at(url, clients, None)
}

/// The shared cluster, with a namespace of the test's own.
pub async fn cluster() -> Subject {
    let started = tokio::task::spawn_blocking(RedisCluster::shared).await.expect("a cluster");
    let mut clients = Vec::new();
    for node in &started.nodes {
        clients.push(RedisServer::client(node).await);
    }
    redis_subject::at(started.url(""), clients, None)
}
