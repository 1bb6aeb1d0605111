//! What an administrator is asked to allow is what the store needs, and no more.

use std::sync::Arc;
use std::time::Duration;

use jobs::history::{RunOutcome, Skip, SkipRecord};
use jobs::store::redis::RedisStore;
use jobs::store::{Change, ClaimPurpose, JobRecord, StoreError, StoreErrorKind, Swap, SwapReply};
use jobs::testing::store::Client;
use redis::aio::MultiplexedConnection;

use super::{fleet, raw};
use support::bench::{LONG, claim, claim_now, claim_what, ending};
use support::redis_server::{PATIENCE, RedisServer};

/// The lines of the page of permissions that grant something to the user `jobs`.
fn granted_lines() -> impl Iterator<Item = &'static str> {
    let page = include_str!("../../../runtime/src/docs/permissions.md");
    let (_, rules) = page.split_once("ACL SETUSER jobs on >password").unwrap();
    rules.split_once("\n```").unwrap().0.lines()
}

fn words_with(sign: char, line: &str) -> Vec<String> {
    line.split_whitespace().filter_map(|word| word.strip_prefix(sign)).map(str::to_owned).collect()
}

/// The commands and keys that an administrator must allow, and the keys of a namespace `ns`.
fn documented_permissions() -> (Vec<String>, Vec<String>, Vec<String>) {
    let mut lines: Vec<_> = granted_lines().collect();
    lines.pop(); // of optional ones
    let commands =
        lines.iter().flat_map(|line| words_with('+', line)).map(|word| word.to_uppercase()).collect();
    let keys: Vec<_> = lines.iter().flat_map(|line| words_with('~', line)).collect();
    let page = include_str!("../../../runtime/src/docs/permissions.md");
    let (_, namespace) = page.split_once("With the namespace `ns` they are ").unwrap();
    let quoted = namespace.split('`').skip(1).step_by(2).take(keys.len()).map(str::to_owned).collect();
    (commands, keys, quoted)
}

/// Everything that is ever done with a key, and by a fleet. No lease ends here before it is released.
async fn whole_life(
    client: &Client,
    lock: &str,
    plain: &mut MultiplexedConnection,
) -> Result<(), StoreError> {
    let mut run = client.acquire("k", &claim_now("a", LONG)).await?.expect("the key is free");
    run.extend().await?;
    let now = client.ping().await?.at;
    client.claim("k", &claim("b", now)).await?; // skipped as held, on record
    run.release(&ending(RunOutcome::Succeeded)).await?;
    let () = raw(plain, &format!("SET {lock} theirs PX 600000")).await;
    client.claim("k", &claim_now("a", LONG)).await?; // held by another program
    client.set_paused("k", true).await?;
    client.reset("k").await?;
    client.request("k", "r", "a", LONG).await?;
    client.announce("b", &fleet::about("b"), LONG).await?;
    client.servers().await?;
    client.leave("b").await?;
    client.forget("k", Duration::ZERO).await?;
    let listener = client.store().listen("by-hand").await?;
    assert!(listener.is_none(), "this user may not subscribe");
    for what in [ClaimPurpose::Lock, ClaimPurpose::Slot(1)] {
        client.acquire("by-hand", &claim_what("a", LONG, what)).await?.expect("the key is free");
    }
    assert_eq!(client.locks().await?.reply.len(), 3, "the two, and that of the other program");
    client.break_lock("by-hand", 10).await?;
    append_two_records(client).await?;
    client.history("k").await.map(drop)
}

/// As when a skip finds a run that has crashed; of two records, one is kept.
async fn append_two_records(client: &Client) -> Result<(), StoreError> {
    let look = client.store().look("k").await?;
    let skip = SkipRecord::new(look.now, Skip::Held, "a", look.now);
    let records = vec![JobRecord::Skip(skip.clone()), JobRecord::Skip(skip)];
    let change = Change { state: Some(Arc::default()), records, keep: 1, ..Change::default() };
    let expected_lock = look.lock.map(|lock| lock.token);
    let swap = Swap { expected: look.version, expected_lock, nonce: 7, change };
    assert!(matches!(client.store().swap("k", &swap).await?, SwapReply::Swapped(_)));
    Ok(())
}

/// The next test grants all lines but the last.
#[test]
fn only_the_last_line_of_documented_permissions_is_optional() {
    let last = granted_lines().last().unwrap();
    assert_eq!(words_with('+', last), ["publish", "subscribe", "unsubscribe", "info", "config|get"]);
    let page = include_str!("../../../runtime/src/docs/permissions.md");
    let keys = documented_permissions().1;
    let named: Vec<_> = keys.iter().map(|key| format!("`{key}`")).collect();
    assert!(page.contains(&format!("{}, {} and {}", named[0], named[1], named[2])), "{keys:?}");
}

#[tokio::test]
async fn documented_permissions_suffice_and_none_is_idle() {
    let server = RedisServer::start();
    let mut plain = server.client().await;
    let (commands, keys, with_a_namespace) = documented_permissions();
    assert!(commands.len() > 10 && keys.len() == 3 && with_a_namespace.len() == 3, "{commands:?} {keys:?}");
    for (namespace, lock, keys) in [(None, "lock:k", keys), (Some("ns"), "ns:lock:k", with_a_namespace)] {
        let url = format!("redis://app:secret@127.0.0.1:{}", server.port());
        let store = RedisStore::open(&url, namespace).unwrap();
        let client = Client::new(store.with_timeouts(PATIENCE, PATIENCE));
        let keys = keys.iter().map(|key| format!("~{key}"));
        let rules: Vec<_> = keys.chain(commands.iter().map(|command| format!("+{command}"))).collect();
        for missing in std::iter::once(None).chain(rules.iter().map(Some)) {
            let () = raw(&mut plain, "FLUSHALL").await;
            let () = raw(&mut plain, "SCRIPT FLUSH").await;
            let granted: Vec<_> = rules.iter().filter(|rule| Some(*rule) != missing).cloned().collect();
            let () =
                raw(&mut plain, &format!("ACL SETUSER app reset on >secret {}", granted.join(" "))).await;
            let result = whole_life(&client, lock, &mut plain).await;
            match missing {
                None => result.expect("the permissions suffice"),
                Some(rule) => {
                    let error = result.expect_err(rule);
                    assert_eq!(error.kind(), StoreErrorKind::Refused, "without {rule}: {error}");
                    let said = error.to_string().to_uppercase();
                    let named = rule.strip_prefix('+').is_none_or(|command| {
                        said.contains(&format!("+{command};")) || said.contains(&format!("'{command}'"))
                    });
                    assert!(said.contains("NOPERM") && named, "without {rule}: {error}");
                }
            }
        }
    }
}
