//! What servers leave in Redis when they announce themselves, and for how long.

use std::time::Duration;

use jobs::store::Note;
use redis::aio::MultiplexedConnection;

use super::{beside, raw};
use support::bench::{Bench, DAY, LONG, MOMENT};
use support::redis_server::RedisServer;

/// What a server without jobs says of itself.
pub fn about(server: &str) -> String {
    format!(
        r#"{{"id":"{server}","started":0,"announced":0,"version":"0","jobs":[],"clock_ahead_micros":0,"running":[]}}"#
    )
}

pub async fn announce(bench: &Bench, server: &str, ttl: Duration) -> Vec<Note> {
    bench.client.announce(server, &about(server), ttl).await.expect("announce").reply
}

pub async fn servers(bench: &Bench) -> Vec<String> {
    let servers = bench.client.servers().await.expect("servers").reply;
    servers.into_iter().map(|server| server.id).collect()
}

async fn keys(plain: &mut MultiplexedConnection) -> Vec<String> {
    let mut keys: Vec<String> = raw(plain, "KEYS {notes}:*").await;
    keys.sort();
    keys
}

#[tokio::test]
async fn ended_fleet_leaves_no_keys_behind() {
    let server = RedisServer::start();
    let (bench, mut plain) = beside(&server).await;
    // A shorter announcement, or request, takes nothing away from a longer one.
    for ttl in [2 * DAY, LONG] {
        announce(&bench, "a", ttl / 2).await;
        announce(&bench, &format!("{ttl:?}"), ttl).await;
        bench.on(&format!("{ttl:?}")).request("r", ttl).await;
    }
    let expected = [
        "{notes}:requests:expiries",
        "{notes}:requests:texts",
        "{notes}:servers:expiries",
        "{notes}:servers:texts",
    ];
    assert_eq!(keys(&mut plain).await, expected);
    for key in expected {
        let left = Duration::from_millis(raw(&mut plain, &format!("PTTL {key}")).await);
        assert!(left + LONG > 3 * DAY && left <= 3 * DAY, "{key}: {left:?}");
    }

    for id in servers(&bench).await {
        bench.client.leave(&id).await.expect("leave");
    }
    assert_eq!(keys(&mut plain).await, expected[..2]);
}

#[tokio::test]
async fn expired_heartbeats_are_removed_a_hundred_at_a_time() {
    let server = RedisServer::start();
    let (bench, mut plain) = beside(&server).await;
    for number in 0..250 {
        let () = raw(&mut plain, &format!("ZADD {{notes}}:servers:expiries {number} old-{number}")).await;
        let about = about(&format!("old-{number}"));
        let () = raw(&mut plain, &format!("HSET {{notes}}:servers:texts old-{number} {about}")).await;
    }
    for left in [151, 51, 1, 1] {
        announce(&bench, "a", LONG).await;
        assert_eq!(servers(&bench).await, ["a"]);
        assert_eq!(raw::<u32>(&mut plain, "ZCARD {notes}:servers:expiries").await, left);
        assert_eq!(raw::<u32>(&mut plain, "HLEN {notes}:servers:texts").await, left);
    }
}

#[tokio::test]
async fn request_is_listed_until_it_expires_and_removed_by_a_later_one() {
    let server = RedisServer::start();
    let (bench, mut plain) = beside(&server).await;
    let short = Duration::from_secs(2);
    let requested = bench.request("first", short).await;
    // The one that waits still counts, and only as long as it does.
    bench.request("second", LONG).await;
    let hint = |id: &str| Note { name: bench.key.clone(), text: id.into() };
    assert_eq!(announce(&bench, "a", LONG).await, [hint("first")]);

    tokio::time::sleep(requested.until.since(bench.now().await) + MOMENT).await;
    assert_eq!(announce(&bench, "a", LONG).await, []);
    bench.on("other").request("third", LONG).await;
    assert_eq!(raw::<Vec<String>>(&mut plain, "HKEYS {notes}:requests:texts").await, ["other"]);
    assert_eq!(raw::<Vec<String>>(&mut plain, "ZRANGE {notes}:requests:expiries 0 -1").await, ["other"]);
}
