//! URLs that lead to a database of their own, through a socket, or with passwords.

use jobs::store::ClaimDecision;
use jobs::store::redis::RedisStore;
use jobs::testing::store::Client;

use support::bench::{LONG, claim_now};
use support::folder::TempFolder;
use support::redis_server::RedisServer;

async fn wins(url: &str) -> bool {
    let client = Client::new(RedisStore::open(url, None).expect("a URL"));
    let claimed = client.claim("k", &claim_now("a", LONG)).await.expect("an answer");
    matches!(claimed.reply.decision, ClaimDecision::Won(_))
}

#[tokio::test]
async fn a_database_number_and_a_socket_lead_to_the_same_keys() {
    let folder = TempFolder::new();
    let socket = folder.path().join("redis.sock").display().to_string();
    let server = RedisServer::start_with(&["--unixsocket", &socket]);
    let port = server.port();
    assert!(wins(&format!("redis+unix://{socket}?db=3")).await);
    assert!(!wins(&format!("redis://127.0.0.1:{port}/3")).await, "held through the socket");
    assert!(wins(&format!("unix://{socket}")).await, "another database");
    assert!(!wins(&format!("redis://127.0.0.1:{port}")).await);
    assert!(!wins(&format!("valkey://127.0.0.1:{port}")).await, "the same server by its other name");
    assert!(wins(&format!("valkey://127.0.0.1:{port}/4")).await, "another database");
    assert!(!wins(&format!("valkey+unix://{socket}?db=4")).await);
    let found: i64 =
        redis::cmd("EXISTS").arg("lock:k").query_async(&mut server.client().await).await.expect("a count");
    assert_eq!(found, 1);
}
