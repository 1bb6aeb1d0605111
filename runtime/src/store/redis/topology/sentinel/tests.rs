use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::store::redis::address;

/// A sentinel that takes so long to answer, and names the master at this port.
async fn sentinel(delay: Duration, master: u16) -> Client {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut sent = vec![0; 4096];
        while let Ok(length @ 1..) = stream.read(&mut sent).await {
            let sent = String::from_utf8_lossy(&sent[..length]).into_owned();
            // A command begins with the number of its words.
            for command in sent.split('*').skip(1) {
                let port = master.to_string();
                let answer = if command.contains("GET-MASTER-ADDR-BY-NAME") {
                    tokio::time::sleep(delay).await;
                    format!("*2\r\n$9\r\n127.0.0.1\r\n${}\r\n{port}\r\n", port.len())
                } else {
                    "+OK\r\n".to_owned()
                };
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        }
    });
    Client::open(address::parse(&format!("redis://127.0.0.1:{port}"), "").unwrap()).unwrap()
}

/// As after a partition: a sentinel that was cut off answers first, and names the former master.
#[tokio::test]
async fn former_master_that_a_minority_names_is_not_believed() {
    let (former, current) = (1001, 1002);
    let later = Duration::from_millis(200);
    let sentinels = vec![
        sentinel(Duration::ZERO, former).await,
        sentinel(later, current).await,
        sentinel(later, current).await,
    ];
    let sentinels = Sentinels { sentinels, name: "shop".to_owned() };
    let master = sentinels.find(Timeouts::default()).await.unwrap();
    assert_eq!(master, ("127.0.0.1".to_owned(), current));
}
