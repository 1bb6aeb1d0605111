//! A way to a real server on which messages take their time, are changed, or get lost.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

type Change = Arc<dyn Fn(Vec<u8>) -> Vec<u8> + Send + Sync>;

/// Opens the door and returns its address. Whatever becomes empty is not passed on.
pub async fn to(
    port: u16,
    delay: Duration,
    request: impl Fn(Vec<u8>) -> Vec<u8> + Send + Sync + 'static,
    reply: impl Fn(Vec<u8>) -> Vec<u8> + Send + Sync + 'static,
) -> String {
    let door = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = door.local_addr().expect("its address").to_string();
    let (request, reply): (Change, Change) = (Arc::new(request), Arc::new(reply));
    tokio::spawn(async move {
        while let Ok((outside, _)) = door.accept().await {
            let inside = TcpStream::connect(("127.0.0.1", port)).await.expect("the server");
            let ((from_outside, to_outside), (from_inside, to_inside)) =
                (outside.into_split(), inside.into_split());
            tokio::spawn(carry(from_outside, to_inside, delay / 2, Arc::clone(&request)));
            tokio::spawn(carry(from_inside, to_outside, delay / 2, Arc::clone(&reply)));
        }
    });
    address
}

pub fn unchanged(message: Vec<u8>) -> Vec<u8> {
    message
}

async fn carry(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, delay: Duration, change: Change) {
    let mut buffer = vec![0; 1 << 20];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        tokio::time::sleep(delay).await;
        if to.write_all(&change(buffer[..length].to_vec())).await.is_err() {
            return;
        }
    }
}
