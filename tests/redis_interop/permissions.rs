//! What an administrator is asked to allow is what the store needs, and no more.

use std::sync::Arc;
use std::time::Duration;

use jobs::history::{RunOutcome, Skip, SkipRecord};
use jobs::store::redis::RedisStore;
use jobs::store::{Change, ClaimPurpose, JobRecord, StoreError, StoreErrorKind, Swap, SwapReply};
use jobs::testing::store::Client;
use redis::aio::MultiplexedConnection;

use super::support::bench::{LONG, claim, claim_now, claim_what, ending};
use super::support::redis_server::{PATIENCE, RedisServer};
use super::{fleet, raw};

/// The commands and keys that the README asks an administrator to allow, and the keys of a namespace `ns`.
fn permissions_in_the_readme() -> (Vec<String>, Vec<String>, Vec<String>) {
    let readme = include_str!("../../README.md");
    let list =
        readme.split("The Redis user may run").nth(1).and_then(|rest| rest.split(").").next()).unwrap();
    let (commands, keys) = list.split_once(" on ").unwrap();
    let (keys, with_a_namespace) = keys.split_once("(with a").unwrap();
    let quoted = |text: &str| text.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
    (quoted(commands), quoted(keys), quoted(with_a_namespace))
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
    let skip = SkipRecord { tick: look.now, reason: Skip::Held, server: "a".to_owned(), at: look.now };
    let records = vec![JobRecord::Skip(skip.clone()), JobRecord::Skip(skip)];
    let change = Change { state: Some(Arc::default()), records, keep: 1, ..Change::default() };
    let expected_lock = look.lock.map(|lock| lock.token);
    let swap = Swap { expected: look.version, expected_lock, nonce: 7, change };
    assert!(matches!(client.store().swap("k", &swap).await?, SwapReply::Swapped(_)));
    Ok(())
}

/// The words of the module's documentation are those of the README.
#[test]
fn both_lists_of_permissions_are_the_same() {
    let docs = include_str!("../../runtime/src/docs/redis.md");
    let rules =
        docs.split("ACL SETUSER jobs on >password").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let with = |sign: char| {
        let words = rules.split_whitespace().filter_map(move |word| word.strip_prefix(sign));
        words.map(str::to_owned).collect::<Vec<_>>()
    };
    let (commands, keys, _) = permissions_in_the_readme();
    assert_eq!(with('~'), keys);
    // With those that only help.
    let optional = ["publish", "subscribe", "unsubscribe", "info", "config|get"];
    let commands = commands.iter().map(|command| command.to_lowercase());
    let commands: Vec<_> = commands.chain(optional.map(str::to_owned)).collect();
    assert_eq!(with('+'), commands);
}

#[tokio::test]
async fn the_permissions_in_the_readme_suffice_and_none_is_idle() {
    let server = RedisServer::start();
    let mut plain = server.client().await;
    let (commands, keys, with_a_namespace) = permissions_in_the_readme();
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
