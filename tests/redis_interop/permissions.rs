//! What an administrator is asked to allow is what the store needs, and no more.

use std::time::Duration;

use jobs::store::redis::RedisStore;
use jobs::store::{ClaimReply, RunOutcome, RunRequest, Store, StoreError, StoreErrorKind, What};
use redis::aio::MultiplexedConnection;

use super::support::bench::{LONG, claim, claim_now, claim_what, ending, lease};
use super::support::redis_server::RedisServer;
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

/// Everything that is ever done with a key, and by a fleet.
async fn whole_life(
    store: &RedisStore,
    lock: &str,
    plain: &mut MultiplexedConnection,
) -> Result<(), StoreError> {
    let win = async |server, ttl| {
        let claim = claim_now(server, ttl);
        match store.claim("k", &claim).await?.reply.decision {
            ClaimReply::Won(won) => Ok(lease(&claim, won)),
            refusal => panic!("{refusal:?}"),
        }
    };
    let first = win("a", Duration::from_millis(20)).await?;
    store.extend("k", &first).await?;
    let now = store.ping().await?.at;
    store.claim("k", &claim("b", now)).await?; // skipped as held, on record
    tokio::time::sleep(Duration::from_millis(30)).await;
    let second = win("b", LONG).await?; // records the first as crashed
    store.release("k", &second, &ending(RunOutcome::Succeeded)).await?;
    let () = raw(plain, &format!("SET {lock} theirs PX 10000")).await;
    store.claim("k", &claim_now("a", LONG)).await?; // held by a stranger
    store.set_paused("k", true).await?;
    store.reset("k").await?;
    let request = RunRequest { id: "r".to_owned(), by: "a".to_owned(), ttl: LONG };
    store.request("k", &request).await?;
    store.announce(&fleet::announcement("a", Duration::ZERO)).await?;
    store.announce(&fleet::announcement("b", LONG)).await?; // removes the first
    store.servers().await?;
    store.leave("b").await?;
    store.forget("k", Duration::ZERO).await?;
    for what in [What::Lock, What::Slot(1)] {
        let mut claim = claim_what("a", LONG, what);
        claim.waits = true;
        store.claim("by-hand", &claim).await?;
    }
    store.locks().await?;
    store.break_lock("by-hand", 10).await?;
    store.history("k").await.map(drop)
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
        let keys = keys.iter().map(|key| format!("~{key}"));
        let rules: Vec<_> = keys.chain(commands.iter().map(|command| format!("+{command}"))).collect();
        for missing in std::iter::once(None).chain(rules.iter().map(Some)) {
            let () = raw(&mut plain, "FLUSHALL").await;
            let () = raw(&mut plain, "SCRIPT FLUSH").await;
            let granted: Vec<_> = rules.iter().filter(|rule| Some(*rule) != missing).cloned().collect();
            let () =
                raw(&mut plain, &format!("ACL SETUSER app reset on >secret {}", granted.join(" "))).await;
            let result = whole_life(&store, lock, &mut plain).await;
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
