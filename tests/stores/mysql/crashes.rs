//! A server that is killed and restarted.

use std::time::Duration;

use jobs::store::mysql::MysqlStore;
use jobs::store::{Store, SwapReply};
use support::mariadb_server::MariadbServer;

use super::{KEY, swap_from};

/// In memory, MariaDB maps its log, and a kill loses nothing, flushed or not.
async fn on_disk(settings: &'static [&'static str]) -> MariadbServer {
    tokio::task::spawn_blocking(|| MariadbServer::start_on_disk(settings)).await.expect("a server")
}

/// Kills the server after some swaps, several times; returns how many acknowledged swaps it lost.
async fn lost_by_kills(mut server: MariadbServer) -> u32 {
    let store = MysqlStore::open(&server.url(), None).expect("a URL");
    let (mut version, mut lost) = (None, 0);
    for _ in 0..2 {
        for _ in 0..20 {
            match store.swap(KEY, &swap_from(version)).await {
                Ok(SwapReply::Swapped(swapped)) => version = Some(swapped.version),
                Ok(SwapReply::Changed(look)) => version = look.version,
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
        server = tokio::task::spawn_blocking(move || {
            server.restart();
            server
        })
        .await
        .expect("it starts again");
        let look = loop {
            match store.look(KEY).await {
                Ok(look) => break look,
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        };
        lost += u32::from(look.version != version);
        version = look.version;
    }
    lost
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_has_every_swap_that_it_acknowledged() {
    assert_eq!(lost_by_kills(on_disk(&[]).await).await, 0);
}

/// The control: a server that flushes once a second, which a start reports. Right after a flush, nothing is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_that_does_not_flush_loses_swaps() {
    for _ in 0..6 {
        if lost_by_kills(on_disk(&["innodb-flush-log-at-trx-commit=0"]).await).await > 0 {
            return;
        }
    }
    panic!("no kill has lost a swap");
}
