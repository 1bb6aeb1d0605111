//! What servers leave in Redis when they announce themselves, and for how long.

use std::sync::Arc;
use std::time::Duration;

use jobs::store::{Announcement, RequestHint};
use redis::aio::MultiplexedConnection;

use super::support::bench::{Bench, DAY, LONG, MOMENT};
use super::support::redis_server::RedisServer;
use super::{beside, raw};

pub fn announcement(server: &str, ttl: Duration) -> Announcement {
    let about = format!(
        r#"{{"id":"{server}","started":0,"announced":0,"version":"0","jobs":[],"clock_ahead_micros":0,"running":[]}}"#
    );
    Announcement { server: server.to_owned(), about: Arc::from(about), ttl }
}

pub async fn announce(bench: &Bench, server: &str, ttl: Duration) -> Vec<RequestHint> {
    bench.store.announce(&announcement(server, ttl)).await.expect("announce").reply
}

pub async fn servers(bench: &Bench) -> Vec<String> {
    let servers = bench.store.servers().await.expect("servers").reply;
    servers.into_iter().map(|server| server.id).collect()
}

async fn keys(plain: &mut MultiplexedConnection) -> Vec<String> {
    let mut keys: Vec<String> = raw(plain, "KEYS {servers}:*").await;
    keys.sort();
    keys
}

#[tokio::test]
async fn a_fleet_that_is_gone_leaves_nothing_behind() {
    let server = RedisServer::start();
    let (bench, mut plain) = beside(&server).await;
    // A shorter announcement, or request, takes nothing away from a longer one.
    for ttl in [2 * DAY, LONG] {
        announce(&bench, "a", ttl / 2).await;
        announce(&bench, &format!("{ttl:?}"), ttl).await;
        bench.on(&format!("{ttl:?}")).request("r", ttl).await;
    }
    let expected = ["{servers}:about", "{servers}:alive", "{servers}:requested", "{servers}:requests"];
    assert_eq!(keys(&mut plain).await, expected);
    for key in expected {
        let left = Duration::from_millis(raw(&mut plain, &format!("PTTL {key}")).await);
        assert!(left + LONG > 3 * DAY && left <= 3 * DAY, "{key}: {left:?}");
    }

    for id in servers(&bench).await {
        bench.store.leave(&id).await.expect("leave");
    }
    assert_eq!(keys(&mut plain).await, expected[2..]);
}

#[tokio::test]
async fn expired_announcements_are_removed_a_hundred_at_a_time() {
    let server = RedisServer::start();
    let (bench, mut plain) = beside(&server).await;
    for number in 0..250 {
        let () = raw(&mut plain, &format!("ZADD {{servers}}:alive {number} old-{number}")).await;
        let about = announcement(&format!("old-{number}"), LONG).about;
        let () = raw(&mut plain, &format!("HSET {{servers}}:about old-{number} {about}")).await;
    }
    for left in [151, 51, 1, 1] {
        announce(&bench, "a", LONG).await;
        assert_eq!(servers(&bench).await, ["a"]);
        assert_eq!(raw::<u32>(&mut plain, "ZCARD {servers}:alive").await, left);
        assert_eq!(raw::<u32>(&mut plain, "HLEN {servers}:about").await, left);
    }
}

#[tokio::test]
async fn a_request_is_told_until_it_expires_and_then_removed() {
    let server = RedisServer::start();
    let (bench, mut plain) = beside(&server).await;
    let short = Duration::from_millis(300);
    let requested = bench.request("first", short).await;
    // The one that waits still counts, and only as long as it does.
    bench.request("second", LONG).await;
    let hint = RequestHint { key: bench.key.clone(), id: "first".to_owned() };
    assert_eq!(announce(&bench, "a", LONG).await, [hint]);

    tokio::time::sleep(requested.until.since(bench.now().await) + MOMENT).await;
    assert_eq!(announce(&bench, "a", LONG).await, []);
    assert_eq!(keys(&mut plain).await, ["{servers}:about", "{servers}:alive"]);
}
