//! Each condition of a swap is dropped in turn, from the script and from the statements, on their way to a real server. The
//! contract must notice.
//!
//! A relay replaces the condition by one that is always true. So the store is unchanged, and so is the server. What
//! concerns the order of sessions on PostgreSQL (`FOR UPDATE`, the turns of inserts and deletions) is shown by
//! `postgres::swaps`, with several connections. Without `ON CONFLICT DO NOTHING` the server reports a duplicate, which
//! the store takes for a refusal, too.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use jobs::store::postgres::PostgresStore;
use jobs::testing::store::{Subject, prove};
use support::mariadb_server::MariadbServer;
use support::mysql_subject;
use support::postgres_server::PostgresServer;
use support::redis_server::{PATIENCE, RedisServer};
use support::redis_subject;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A text that is replaced on its way to the server.
#[derive(Clone, Copy)]
pub struct Replacement {
    pub text: &'static str,
    pub by: &'static str,
}

/// Replaces a text in what clients send to the server on this port, and returns the port to connect to.
pub async fn relay(server: u16, replacement: Replacement, replaced: Arc<AtomicUsize>) -> u16 {
    assert!(replacement.by.len() <= replacement.text.len(), "messages carry their length");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(carry(client, server, replacement, replaced.clone()));
        }
    });
    port
}

async fn carry(client: TcpStream, server: u16, replacement: Replacement, replaced: Arc<AtomicUsize>) {
    let server = TcpStream::connect(("127.0.0.1", server)).await.unwrap();
    server.set_nodelay(true).unwrap();
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    tokio::spawn(async move { tokio::io::copy(&mut from_server, &mut to_client).await });
    let mut bytes = Vec::new();
    while from_client.read_buf(&mut bytes).await.is_ok_and(|length| length > 0) {
        // The rest of a long message.
        while let Ok(Ok(1..)) =
            tokio::time::timeout(Duration::from_millis(1), from_client.read_buf(&mut bytes)).await
        {}
        replaced.fetch_add(replace(&mut bytes, replacement), Ordering::Relaxed);
        if to_server.write_all(&bytes).await.is_err() {
            return;
        }
        bytes.clear();
    }
}

/// Replaces a text wherever it is found, and keeps the length of the whole.
fn replace(bytes: &mut [u8], Replacement { text, by }: Replacement) -> usize {
    let mut found = 0;
    for at in 0..bytes.len().saturating_sub(text.len() - 1) {
        let place = &mut bytes[at..at + text.len()];
        if place == text.as_bytes() {
            place.fill(b' ');
            place[..by.len()].copy_from_slice(by.as_bytes());
            found += 1;
        }
    }
    found
}

async fn redis(replacement: Replacement, replaced: Arc<AtomicUsize>) -> Subject {
    // A server of its own: another one may know the whole script.
    let server = Arc::new(RedisServer::start());
    let port = relay(server.port(), replacement, replaced).await;
    let client = server.client().await;
    redis_subject::at(format!("redis://127.0.0.1:{port}"), vec![client], Some(server))
}

async fn postgres(replacement: Replacement, replaced: Arc<AtomicUsize>) -> Subject {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let namespace = format!("dropped{}", COUNT.fetch_add(1, Ordering::Relaxed));
    let (url, port) = (PostgresServer::shared().url(), PostgresServer::shared().port());
    let through = relay(port, replacement, replaced).await;
    let url = url.replace(&format!(":{port}"), &format!(":{through}"));
    let store = PostgresStore::open(&url, Some(&namespace)).expect("a valid URL");
    Subject::new(store.with_timeouts(PATIENCE, PATIENCE))
}

async fn mysql(replacement: Replacement, replaced: Arc<AtomicUsize>) -> Subject {
    let server = tokio::task::spawn_blocking(MariadbServer::shared).await.expect("a server");
    let through = relay(server.port(), replacement, replaced).await;
    mysql_subject::at(server, server.url_through(through)).await
}

/// The store keeps the promise, and without the condition it does not.
fn is_noticed(
    promise: &str,
    replacement: Replacement,
    open: impl AsyncFn(Replacement, Arc<AtomicUsize>) -> Subject,
) {
    let unchanged = Replacement { by: replacement.text, ..replacement };
    for (replacement, is_kept) in [(unchanged, true), (replacement, false)] {
        let replaced = Arc::new(AtomicUsize::new(0));
        let proof = std::panic::AssertUnwindSafe(|| {
            prove(promise, async || open(replacement, replaced.clone()).await);
        });
        let proof = std::panic::catch_unwind(proof);
        let Replacement { text, by } = replacement;
        assert!(replaced.load(Ordering::Relaxed) > 0, "no message had {text:?}");
        assert_eq!(proof.is_ok(), is_kept, "{promise}, with {by:?} in place of {text:?}");
    }
}

macro_rules! noticed {
    ($store:ident: $($name:ident: $text:literal => $by:literal by $promise:ident;)+) => {
        mod $store {
            use super::{Replacement, is_noticed};
            $(
                #[test]
                fn $name() {
                    let replacement = Replacement { text: $text, by: $by };
                    is_noticed(stringify!($promise), replacement, super::$store);
                }
            )+
        }
    };
}

noticed! { redis:
    missing_comparison_of_the_version_is_noticed:
        "(version or head) == expected" => "true" by swap_from_an_older_version_is_refused;
    missing_comparison_of_the_lock_is_noticed:
        "(lock == 0 and '*' or lock and '=' .. lock or '') == expected_lock" => "true"
        by swap_is_refused_if_the_lock_is_not_the_expected_one;
    missing_not_before_is_noticed:
        "now < tonumber(not_before)" => "false" by not_before_is_checked_by_the_stores_clock;
    missing_not_after_is_noticed:
        "now > tonumber(not_after)" => "false" by not_after_is_checked_by_the_stores_clock;
    fence_without_the_stored_one_is_noticed:
        "fence + 1 > now and text(fence + 1) or at" => "at"
        by fence_is_raised_to_at_least_a_number_and_never_lowered;
    fence_without_the_clock_is_noticed:
        "fence + 1 > now and text(fence + 1) or at" => "text(fence + 1)"
        by next_fence_grows_and_is_at_least_the_clock;
    lowered_fence_is_noticed:
        "tonumber(fence_change) > tonumber(fence)" => "true"
        by fence_is_raised_to_at_least_a_number_and_never_lowered;
    version_without_the_clock_is_noticed:
        "at .. '-' .. nonce" => "'1-' .. nonce" by version_is_the_clock_at_the_swap_and_the_nonce;
}

noticed! { postgres:
    missing_comparisons_of_the_version_of_an_update_are_noticed:
        "version = $3" => "version > ''" by swap_from_an_older_version_is_refused;
    missing_comparisons_of_the_version_of_a_deletion_are_noticed:
        "version = $3" => "version > ''" by deletion_of_an_older_version_is_refused;
    missing_not_before_is_noticed:
        "now BETWEEN $5 AND $6" => "now <= $6" by not_before_is_checked_by_the_stores_clock;
    missing_not_after_is_noticed:
        "now BETWEEN $5 AND $6" => "now >= $5" by not_after_is_checked_by_the_stores_clock;
    fence_without_the_stored_one_is_noticed:
        "greatest(least(c.fence, 9223372036854775806) + 1, now)" => "now"
        by fence_is_raised_to_at_least_a_number_and_never_lowered;
    fence_without_the_clock_is_noticed:
        "greatest(least(c.fence, 9223372036854775806) + 1, now)" => "c.fence + 1"
        by next_fence_grows_and_is_at_least_the_clock;
    lowered_fence_is_noticed:
        "greatest(c.fence, $8)" => "$8" by fence_is_raised_to_at_least_a_number_and_never_lowered;
}

noticed! { mysql:
    missing_comparison_of_the_version_of_an_update_is_noticed:
        "AND version = '" => "AND version >='" by swap_from_an_older_version_is_refused;
    missing_comparison_of_the_version_of_a_deletion_is_noticed:
        "AND version = '" => "AND version >='" by deletion_of_an_older_version_is_refused;
    missing_not_before_is_noticed:
        "@now >= " => "-1e19<= " by not_before_is_checked_by_the_stores_clock;
    missing_not_after_is_noticed:
        "@now <= " => "-1e19<= " by not_after_is_checked_by_the_stores_clock;
    fence_without_the_stored_one_is_noticed:
        "GREATEST(LEAST(@fence, 9223372036854775806) + 1, @now)" => "@now"
        by fence_is_raised_to_at_least_a_number_and_never_lowered;
    fence_without_the_clock_is_noticed:
        "GREATEST(LEAST(@fence, 9223372036854775806) + 1, @now)" => "@fence + 1"
        by next_fence_grows_and_is_at_least_the_clock;
    lowered_fence_is_noticed:
        "GREATEST(@fence, " => "GREATEST(0,      " by fence_is_raised_to_at_least_a_number_and_never_lowered;
}
