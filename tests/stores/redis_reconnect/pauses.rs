//! A store does not storm a server that hangs up, and a fleet does not come back in one instant.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use jobs::store::Store;
use jobs::store::redis::RedisStore;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use support::redis_server::{PATIENCE, RedisServer};

/// A way to the server that can be shut: then everybody is thrown out, and whoever comes is sent away at once.
struct Door {
    url: String,
    arrivals: Arc<Mutex<Vec<Instant>>>,
    shut: watch::Sender<bool>,
}

impl Door {
    async fn to(server: &RedisServer) -> Self {
        let door = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("redis://{}", door.local_addr().expect("its address"));
        let (port, arrivals) = (server.port(), Arc::default());
        let (shut, is_shut) = watch::channel(false);
        let seen: Arc<Mutex<Vec<Instant>>> = Arc::clone(&arrivals);
        tokio::spawn(async move {
            while let Ok((mut outside, _)) = door.accept().await {
                seen.lock().unwrap().push(Instant::now());
                let mut is_shut = is_shut.clone();
                if *is_shut.borrow() {
                    continue;
                }
                tokio::spawn(async move {
                    let mut inside = TcpStream::connect(("127.0.0.1", port)).await.expect("the server");
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut outside, &mut inside) => {}
                        _ = is_shut.wait_for(|shut| *shut) => {}
                    }
                });
            }
        });
        Self { url, arrivals, shut }
    }

    fn open_store(&self) -> RedisStore {
        RedisStore::open(&self.url, None).expect("a valid URL").with_timeouts(PATIENCE, PATIENCE)
    }

    fn arrivals(&self) -> Vec<Instant> {
        self.arrivals.lock().unwrap().clone()
    }
}

#[tokio::test]
async fn server_that_closes_every_connection_is_retried_a_few_times_a_second_and_found_again() {
    let server = RedisServer::start();
    let door = Door::to(&server).await;
    door.shut.send_replace(true);
    let store = door.open_store();
    let (began, siege) = (Instant::now(), Duration::from_secs(2));
    while began.elapsed() < siege {
        store.look("k").await.expect_err("the door is shut");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let tried = door.arrivals().len();
    assert!((4..=10).contains(&tried), "{tried} attempts in {siege:?}");

    // Who makes no pauses is seen that often.
    let client = redis::Client::open(door.url.clone()).expect("a URL");
    let began = Instant::now();
    while began.elapsed() < siege && door.arrivals().len() < 100 {
        let opened = client.get_multiplexed_async_connection().await;
        if let Ok(mut opened) = opened {
            redis::cmd("PING").query_async::<()>(&mut opened).await.expect_err("the door is shut");
        }
    }
    assert!(door.arrivals().len() > 2 * tried, "the control: {} attempts", door.arrivals().len());

    door.shut.send_replace(false);
    let back = Instant::now();
    store.look("k").await.expect("the door is open");
    assert!(back.elapsed() < Duration::from_secs(5), "{:?}", back.elapsed());
    store.look("k").await.expect("it stays open");
}

#[tokio::test]
async fn fifty_servers_that_lose_their_connections_together_reconnect_spread_out() {
    let server = RedisServer::start();
    let door = Door::to(&server).await;
    let fleet: Vec<_> = (0..50).map(|_| Arc::new(door.open_store())).collect();
    for store in &fleet {
        store.look("k").await.expect("the door is open");
    }
    // So that these connections are not taken for ones that broke as soon as they were open.
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    let before = door.arrivals().len();
    door.shut.send_replace(true);
    let come_back: Vec<_> = fleet
        .iter()
        .map(|store| {
            let store = Arc::clone(store);
            tokio::spawn(async move {
                store.look("k").await.expect_err("thrown out");
                store
            })
        })
        .collect();
    let mut thrown_out = Vec::new();
    for store in come_back {
        thrown_out.push(store.await.expect("no panic"));
    }
    assert_eq!(door.arrivals().len(), before, "each first notices that its connection is gone");
    door.shut.send_replace(false);
    let back: Vec<_> =
        thrown_out.into_iter().map(|store| tokio::spawn(async move { store.look("k").await })).collect();
    for store in back {
        store.await.expect("no panic").expect("the door is open again");
    }
    let arrivals = door.arrivals().split_off(before);
    assert_eq!(arrivals.len(), 50);
    let spread = *arrivals.last().unwrap() - arrivals[0];
    println!("50 first attempts within {spread:?}");
    assert!(spread > Duration::from_millis(30), "{spread:?}");
}
