//! What looks cost the server.

use std::sync::Arc;
use std::time::Duration;

use jobs::store::Store;
use support::proxy::Proxy;
use tokio::task::JoinSet;

use super::{shared, store_at, unused_name};

#[tokio::test]
async fn looks_at_the_same_time_share_a_message() {
    const KEYS: usize = 100;
    let (server, namespace) = (shared().await, unused_name());
    let proxy = Proxy::before(server.port(), Duration::ZERO).await;
    let store = Arc::new(store_at(&server.url_through(proxy.port()), &namespace));
    store.look("key").await.expect("a connection");

    proxy.strike(&[]);
    let mut looks = JoinSet::new();
    for number in 0..KEYS {
        let store = store.clone();
        looks.spawn(async move { store.look(&format!("key-{number}")).await });
    }
    while let Some(look) = looks.join_next().await {
        look.expect("no panic").expect("an answer");
    }
    assert_eq!(proxy.answers(), 1);

    // The control: one after the other, each is a message of its own.
    proxy.strike(&[]);
    for number in 0..KEYS {
        store.look(&format!("key-{number}")).await.expect("an answer");
    }
    assert_eq!(proxy.answers(), KEYS);
}
