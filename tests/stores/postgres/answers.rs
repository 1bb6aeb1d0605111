//! An answer that is not the one to what was asked decides nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use jobs::store::{Change, KeyState, Store, StoreErrorKind, Swap, SwapReply, Version};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

use super::{store_at, unused_name};
use support::postgres_server::PostgresServer;

/// Passes everything on, and leaves the rows out of the next answer if it is told to.
struct WithoutRows {
    port: u16,
    leaves_out: Arc<AtomicBool>,
}

impl WithoutRows {
    async fn before(server: &PostgresServer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("its address").port();
        let leaves_out = Arc::new(AtomicBool::new(false));
        let (leaves_out_too, server) = (Arc::clone(&leaves_out), server.port());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(("127.0.0.1", server)).await.expect("the server");
                let ((mut from_client, to_client), (from_server, mut to_server)) =
                    (client.into_split(), server.into_split());
                tokio::spawn(async move { tokio::io::copy(&mut from_client, &mut to_server).await });
                let leaves_out = Arc::clone(&leaves_out_too);
                tokio::spawn(async move {
                    let _closed = pass_on(from_server, to_client, &leaves_out).await;
                });
            }
        });
        Self { port, leaves_out }
    }

    fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres?sslmode=disable", self.port)
    }

    fn leave_out_next(&self) {
        self.leaves_out.store(true, Ordering::SeqCst);
    }
}

/// Message by message: a letter, and the length of itself and what follows.
async fn pass_on(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    leaves_out: &AtomicBool,
) -> std::io::Result<()> {
    loop {
        let letter = from.read_u8().await?;
        let length = from.read_u32().await?;
        let mut rest = vec![0; usize::try_from(length).expect("a length") - 4];
        from.read_exact(&mut rest).await?;
        if letter == b'D' && leaves_out.swap(false, Ordering::SeqCst) {
            continue;
        }
        let message = [&[letter][..], &length.to_be_bytes(), &rest].concat();
        to.write_all(&message).await?;
    }
}

fn swap(expected: Option<Version>, state: Option<KeyState>) -> Swap {
    let change = Change { state: state.map(Arc::new), ..Change::default() };
    Swap { expected, expected_lock: None, nonce: 7, change }
}

/// Taken for a refusal, an empty answer would deny a swap that was applied.
#[tokio::test]
async fn empty_answer_to_a_swap_is_an_error_and_no_refusal() {
    let server = PostgresServer::shared();
    let proxy = WithoutRows::before(server).await;
    let (store, straight) = {
        let namespace = unused_name();
        (store_at(&proxy.url(), &namespace), store_at(&server.url(), &namespace))
    };
    for round in 0..3 {
        let version = straight.look("key").await.expect("look").version;
        let change = if round == 2 { swap(version, None) } else { swap(version, Some(KeyState::default())) };
        store.look("key").await.expect("a connection");
        proxy.leave_out_next();
        let error = store.swap("key", &change).await.expect_err("no answer to the swap");
        assert_eq!(error.kind(), StoreErrorKind::Unreachable, "{error}");
        assert!(error.to_string().contains("the answer is for another statement"), "{error}");
        let shown = straight.look("key").await.expect("look").version;
        assert_ne!(shown, version, "the swap was applied");
    }
    // The control: a refusal is answered as one.
    let refused =
        swap(Some(Version { at: jobs::Timestamp::from_micros(1), nonce: 1 }), Some(KeyState::default()));
    let reply = store.swap("key", &refused).await.expect("a refusal");
    assert!(matches!(reply, SwapReply::Changed(_)), "{reply:?}");
}

/// Where the first error among these messages of a server ends.
fn end_of_error(messages: &[u8]) -> Option<usize> {
    let mut at = 0;
    while let Some([kind, length @ ..]) = messages.get(at..at + 5) {
        let length = u32::from_be_bytes(length.try_into().expect("four bytes"));
        at += 1 + usize::try_from(length).expect("a length");
        if *kind == b'E' {
            return Some(at);
        }
    }
    None
}

/// Passes messages on to the server. After an error it holds back that the server is ready, and counts what the client sends
/// meanwhile.
async fn relay_that_delays_readiness(port: u16, early: Arc<AtomicUsize>, errors: Arc<AtomicUsize>) -> u16 {
    let door = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let own = door.local_addr().expect("an address").port();
    tokio::spawn(async move {
        let (outside, _) = door.accept().await.expect("a client");
        let inside = TcpStream::connect(("127.0.0.1", port)).await.expect("the server");
        let (mut from_client, mut to_client) = outside.into_split();
        let (mut from_server, mut to_server) = inside.into_split();
        let is_held = Arc::new(AtomicBool::new(false));
        let held = Arc::clone(&is_held);
        tokio::spawn(async move {
            let mut buffer = vec![0; 1 << 16];
            while let Ok(length @ 1..) = from_client.read(&mut buffer).await {
                early.fetch_add(usize::from(held.load(Ordering::SeqCst)), Ordering::SeqCst);
                to_server.write_all(&buffer[..length]).await.expect("the server");
            }
        });
        let mut buffer = vec![0; 1 << 16];
        while let Ok(length @ 1..) = from_server.read(&mut buffer).await {
            let mut rest = &buffer[..length];
            if let Some(end) = end_of_error(rest) {
                is_held.store(true, Ordering::SeqCst);
                to_client.write_all(&rest[..end]).await.expect("the client");
                rest = &rest[end..];
                errors.fetch_add(1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(200)).await;
                is_held.store(false, Ordering::SeqCst);
            }
            to_client.write_all(rest).await.expect("the client");
        }
    });
    own
}

/// PgBouncer 1.18 takes the server for free once it is ready, although it has passed on another message.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_sent_after_an_error_before_the_server_is_ready() {
    let server = PostgresServer::shared();
    store_at(&server.url(), "own").look("key").await.expect("the tables are made");
    let [early, errors] = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
    let port = relay_that_delays_readiness(server.port(), Arc::clone(&early), Arc::clone(&errors)).await;
    let store = store_at(&server.url().replace(&server.port().to_string(), &port.to_string()), "own");
    store.look("key").await.expect("an answer");
    assert!(errors.load(Ordering::SeqCst) > 0, "the session knew the statement: this shows nothing");
    assert_eq!(early.load(Ordering::SeqCst), 0, "messages that were sent too early");
}
