//! Locks between processes, some of which are killed.

use std::path::Path;
use std::time::Duration;

use jobs::store::redis::RedisStore;

use support::child::{Child, role, tell, wait_for_parent};
use support::redis_server::RedisServer;

const ENTRY: &str = "processes::waiters_get_the_lock_after_other_processes_are_killed";

async fn on(url: &str) -> jobs::Jobs {
    let store = RedisStore::open(url, Some("processes")).unwrap();
    jobs::builder().without_jobs().store(store).start_all().await.unwrap()
}

#[tokio::test]
async fn waiters_get_the_lock_after_other_processes_are_killed() {
    if let Some((role, url)) = role() {
        return child(&role, &url).await;
    }
    let server = RedisServer::start();
    let url = server.url();
    let jobs = on(&url).await;
    let spawn = |role: &str| Child::spawn(ENTRY, role, Path::new(&url));
    let mut holder = spawn("holder");
    holder.expect("holds");
    let mut waiter = spawn("waiter");
    waiter.expect("waits");
    let waiting = tokio::spawn(jobs.lock("k").ttl("2s").wait("60s").acquire());
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!waiting.is_finished());
    waiter.kill();
    holder.kill();
    let guard = waiting.await.unwrap().expect("neither of them is in the way for longer than a ttl");
    guard.release().await.unwrap();
    // A process that waits gets the lock after the holder is killed.
    let guard = jobs.lock("k").ttl("30s").acquire().await.unwrap();
    let fence = guard.fence();
    let mut waiter = spawn("waiter");
    waiter.expect("waits");
    tokio::time::sleep(Duration::from_millis(300)).await;
    guard.release().await.unwrap();
    let got: i64 = waiter.told().expect("a fence").parse().unwrap();
    assert!(got > fence);
    waiter.go_on();
    waiter.rest();
    drop(jobs.lock("k").wait("20s").acquire().await.unwrap());
    jobs.shutdown().await;
}

async fn child(role: &str, url: &str) {
    let jobs = on(url).await;
    if role == "waiter" {
        tell("waits");
    }
    let guard = jobs.lock("k").ttl("2s").acquire().await.unwrap();
    tell(&if role == "waiter" { guard.fence().to_string() } else { "holds".to_owned() });
    tokio::task::spawn_blocking(wait_for_parent).await.unwrap();
    guard.release().await.unwrap();
    jobs.shutdown().await;
}
