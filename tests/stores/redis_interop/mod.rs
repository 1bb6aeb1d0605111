//! The Redis store beside programs that use the same lock in the plain way, and on servers in trouble.

mod cost;
mod fleet;
mod permissions;
mod registration;

use std::sync::Arc;
use std::time::Duration;

use jobs::Timestamp;
use jobs::history::RunOutcome;
use jobs::store::redis::RedisStore;
use jobs::store::{
    Change, ClaimDecision, ClaimPurpose, ExtendReply, FenceChange, KeyState, Lease, ReleaseReply, Store,
    StoreError, StoreErrorKind, Swap, SwapReply,
};
use jobs::testing::store::{Client, Subject};
use redis::aio::MultiplexedConnection;

use support::bench::{Bench, LONG, claim, claim_now, claim_what, holder};
use support::redis_cluster::add_slots;
use support::redis_server::{PATIENCE, RedisServer};

const LOCK: &str = "lock:import-products";

/// A store on the server, and a plain client beside it.
async fn beside(server: &RedisServer) -> (Bench, MultiplexedConnection) {
    let store = RedisStore::open(&server.url(), None).expect("a valid URL");
    let subject = Subject::new(store.with_timeouts(PATIENCE, PATIENCE));
    (Bench::of(&subject), server.client().await)
}

async fn raw<T: redis::FromRedisValue>(client: &mut MultiplexedConnection, command: &str) -> T {
    let mut words = command.split(' ');
    let mut cmd = redis::cmd(words.next().expect("a command"));
    cmd.arg(words.collect::<Vec<_>>()).query_async(client).await.expect(command)
}

/// Changes the state in the record of the key, as no program should.
async fn tamper(client: &mut MultiplexedConnection, change: impl FnOnce(&mut serde_json::Value)) {
    let record = format!("{{{LOCK}}}:state");
    let text: String = raw(client, &format!("GET {record}")).await;
    let (head, state) = text.split_once(",\"state\":").expect("a record");
    let mut state =
        serde_json::from_str(state.strip_suffix('}').expect("a record")).expect("the state is JSON");
    change(&mut state);
    let text = format!("{head},\"state\":{state}}}");
    let () = redis::cmd("SET").arg(record).arg(text).query_async(client).await.expect("it is written");
}

#[tokio::test]
async fn a_plain_clients_lock_excludes_ours_while_it_lasts() {
    let server = RedisServer::start();
    let (bench, mut plain) = beside(&server).await;
    let () = raw(&mut plain, &format!("SET {LOCK} theirs NX PX 2000")).await;
    let held = holder(bench.claim(&claim_now("a", LONG)).await);
    let remaining = held.remaining.expect("it expires");
    assert!(held.server.is_none() && remaining <= Duration::from_millis(2001), "{held:?}");
    assert_eq!(raw::<String>(&mut plain, &format!("GET {LOCK}")).await, "theirs");

    tokio::time::sleep(remaining + Duration::from_millis(3)).await;
    bench.win(&claim_now("a", LONG)).await;
}

#[tokio::test]
async fn our_lock_excludes_a_plain_client_until_it_is_released() {
    let server = RedisServer::start();
    let (bench, mut plain) = beside(&server).await;
    let lease = bench.win(&claim_now("a", LONG)).await;
    let take = format!("SET {LOCK} theirs NX PX 1000");
    assert_eq!(raw::<Option<String>>(&mut plain, &take).await, None);
    assert_eq!(raw::<String>(&mut plain, &format!("GET {LOCK}")).await, *lease.token);
    let left: i64 = raw(&mut plain, &format!("PTTL {LOCK}")).await;
    assert!((29_000..=30_000).contains(&left), "{left}");

    bench.release(&lease, RunOutcome::Succeeded).await;
    assert_eq!(raw::<i64>(&mut plain, &format!("EXISTS {LOCK}")).await, 0);
    assert_eq!(raw::<Option<String>>(&mut plain, &take).await.as_deref(), Some("OK"));
}

#[tokio::test]
async fn lock_of_another_redis_type_counts_as_held() {
    let server = RedisServer::start();
    let (bench, mut plain) = beside(&server).await;
    let () = raw(&mut plain, &format!("HSET {LOCK} owner theirs")).await;
    let held = holder(bench.claim(&claim_now("a", LONG)).await);
    assert_eq!((held.server, held.remaining), (None, None));
    let () = raw(&mut plain, &format!("DEL {LOCK}")).await;

    let lease = bench.win(&claim_now("a", LONG)).await;
    let () = raw(&mut plain, &format!("DEL {LOCK}")).await;
    let () = raw(&mut plain, &format!("HSET {LOCK} owner theirs")).await;
    assert_eq!(bench.extend(&lease).await, ExtendReply::Lost { broken_by: None });
    assert_eq!(bench.release(&lease, RunOutcome::LeaseLost).await, ReleaseReply::Released);
    assert_eq!(raw::<String>(&mut plain, &format!("HGET {LOCK} owner")).await, "theirs");
}

#[tokio::test]
async fn only_the_lock_expires() {
    let server = RedisServer::start();
    let (bench, mut plain) = beside(&server).await;
    bench.finish(&claim_now("a", LONG)).await;
    bench.pause(true).await;
    bench.claim(&claim("a", bench.now().await)).await;
    bench.win(&claim_now("a", LONG)).await;
    let mut keys: Vec<String> = raw(&mut plain, "KEYS *").await;
    keys.sort();
    let expected =
        [LOCK, "{lock:import-products}:runs", "{lock:import-products}:skips", "{lock:import-products}:state"];
    assert_eq!(keys, expected);
    for key in &keys {
        let left: i64 = raw(&mut plain, &format!("PTTL {key}")).await;
        assert_eq!(left >= 0, key == LOCK, "{key}: {left}");
    }
}

#[tokio::test]
async fn the_keys_of_a_job_and_those_of_the_fleet_are_in_one_cluster_slot_each() {
    let server = RedisServer::start_with(&["--cluster-enabled", "yes"]);
    let mut plain = server.client().await;
    for lock in [LOCK, "billing:lock:a/b:c", "lock:.."] {
        let slot: i64 = raw(&mut plain, &format!("CLUSTER KEYSLOT {lock}")).await;
        for part in ["state", "runs", "skips", "awaited"] {
            let key = format!("{{{lock}}}:{part}");
            assert_eq!(raw::<i64>(&mut plain, &format!("CLUSTER KEYSLOT {key}")).await, slot, "{key}");
        }
    }
    let slot: i64 = raw(&mut plain, "CLUSTER KEYSLOT {notes}:servers:expiries").await;
    for key in ["{notes}:servers:texts", "{notes}:requests:expiries", "{notes}:requests:texts"] {
        assert_eq!(raw::<i64>(&mut plain, &format!("CLUSTER KEYSLOT {key}")).await, slot, "{key}");
    }
    // And the scripts name all keys they touch: a cluster of one node that owns every slot runs them.
    let () = raw(&mut plain, &add_slots(0..=16383)).await;
    let (bench, _) = beside(&server).await;
    for _ in 0..100 {
        if bench.store.look(&bench.key).await.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let mut lease = bench.win(&claim_now("a", LONG)).await;
    bench.keep(&mut lease).await;
    assert_eq!(bench.release(&lease, RunOutcome::Succeeded).await, ReleaseReply::Released);
    assert_eq!(bench.history().await.runs.len(), 1);
    bench.request("r", LONG).await;
    assert_eq!(fleet::announce(&bench, "a", LONG).await.len(), 1);
    assert_eq!(fleet::servers(&bench).await, ["a"]);
    bench.client.leave("a").await.expect("leave");
}

#[tokio::test]
async fn forgotten_scripts_change_nothing() {
    let server = RedisServer::start();
    let (bench, mut plain) = beside(&server).await;
    let claim = claim("a", bench.now().await);
    let mut lease = bench.win(&claim).await;
    let () = raw(&mut plain, "SCRIPT FLUSH").await;
    assert_eq!(bench.win(&claim).await, lease);
    let () = raw(&mut plain, "SCRIPT FLUSH").await;
    bench.keep(&mut lease).await;
    let () = raw(&mut plain, "SCRIPT FLUSH").await;
    assert_eq!(bench.release(&lease, RunOutcome::Succeeded).await, ReleaseReply::Released);
    let () = raw(&mut plain, "SCRIPT FLUSH").await;
    assert_eq!(bench.history().await.runs.len(), 1);
}

#[tokio::test]
async fn a_registration_from_the_future_counts_from_now() {
    let server = RedisServer::start();
    let (bench, mut plain) = beside(&server).await;
    bench.register().await;
    let future = (bench.now().await + LONG).as_micros();
    tamper(&mut plain, |state| {
        assert!(state["registered"]["at"].is_i64(), "{state}");
        state["registered"]["at"] = future.into();
    })
    .await;
    let before = bench.now().await;
    let claimed = bench.answer(&claim("a", before)).await.at;
    let registered = bench.history().await.registered.expect("registered").at;
    assert!((before..=claimed).contains(&registered), "{registered:?} is not in {before:?}..={claimed:?}");
}

/// What a server of the last version left behind must stop this one: without it the tick would run again.
#[tokio::test]
async fn a_record_of_the_old_format_is_an_error_that_names_the_format_and_no_claim() {
    let server = RedisServer::start();
    let (bench, mut plain) = beside(&server).await;
    let tick = bench.tick_now().await;
    let old = format!(
        "HSET {{{LOCK}}}:state format 1 fence 1800014400000001 mark {0} mark_server old started_tick {0} finished 1",
        tick.as_micros()
    );
    let () = raw(&mut plain, &old).await;
    let dump = async |plain: &mut MultiplexedConnection| -> Vec<String> {
        let mut found: Vec<String> = raw(plain, &format!("HGETALL {{{LOCK}}}:state")).await;
        let mut keys: Vec<String> = raw(plain, "KEYS *").await;
        keys.sort();
        found.extend(keys);
        found
    };
    let before = dump(&mut plain).await;
    let client = &bench.client;
    let errors = [
        client.claim(&bench.key, &claim("b", tick)).await.err(),
        client.claim(&bench.key, &claim_now("b", LONG)).await.err(),
        // The first question of a manual lock is the swap itself.
        client.claim_first(&bench.key, &claim_what("b", LONG, ClaimPurpose::Lock)).await.err(),
        client.set_paused(&bench.key, true).await.err(),
        client.history(&bench.key).await.err(),
    ];
    for error in errors {
        let error = error.expect("an old record");
        assert_eq!(error.kind(), StoreErrorKind::Unreadable, "{error}");
        let says = format!("{{{LOCK}}}:state is not a string: an older version (format 1)");
        assert!(error.to_string().contains(&says), "{error}");
    }
    assert_eq!(dump(&mut plain).await, before, "nothing was written");
}

#[tokio::test]
async fn a_full_server_refuses_claims_and_still_extends_and_releases() {
    let server = RedisServer::start();
    let (bench, mut plain) = beside(&server).await;
    let claimed = claim("a", bench.now().await);
    let mut lease = bench.win(&claimed).await;
    let () = raw(&mut plain, "CONFIG SET maxmemory-policy noeviction").await;
    let () = raw(&mut plain, "CONFIG SET maxmemory 1").await;

    let error = bench.client.claim("other", &claim_now("b", LONG)).await.expect_err("the server is full");
    assert_eq!(error.kind(), StoreErrorKind::Full);
    assert!(error.to_string().contains("maxmemory") && error.to_string().contains("more memory"), "{error}");
    assert_eq!(raw::<Vec<String>>(&mut plain, "KEYS *other*").await, Vec::<String>::new());

    assert_eq!(bench.win(&claimed).await, lease);
    bench.keep(&mut lease).await;
    assert!(matches!(bench.claim(&claim("b", lease.tick.unwrap())).await, ClaimDecision::Taken(_)));
    // Even what vanished or was wiped is put back.
    let () = raw(&mut plain, &format!("DEL {LOCK}")).await;
    bench.keep(&mut lease).await;
    assert_eq!(raw::<String>(&mut plain, &format!("GET {LOCK}")).await, *lease.token);
    let () = raw(&mut plain, "FLUSHALL").await;
    assert!(matches!(bench.extend(&lease).await, ExtendReply::Restored(_)));
    assert_eq!(bench.release(&lease, RunOutcome::Succeeded).await, ReleaseReply::Released);
    assert_eq!(bench.history().await.runs.len(), 1);
    bench.pause(true).await;

    let () = raw(&mut plain, "CONFIG SET maxmemory 0").await;
    bench.on("other").win(&claim_now("b", LONG)).await;
}

async fn trouble(url: &str) -> StoreError {
    let store = RedisStore::open(url, None).expect("a valid URL");
    assert!(!format!("{store:?} {}", store.location()).contains("secret"));
    let error =
        Client::new(store).claim("import-products", &claim_now("a", LONG)).await.expect_err("trouble");
    assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
    error
}

#[tokio::test]
async fn a_wrong_password_is_refused_and_never_shown() {
    let server = RedisServer::start_with(&["--requirepass", "opensesame"]);
    let at = format!("127.0.0.1:{}", server.port());
    for credentials in [":secret", "secret", "default:secret", "nobody:secret"] {
        assert_eq!(trouble(&format!("redis://{credentials}@{at}")).await.kind(), StoreErrorKind::Refused);
        let resp3 = format!("redis://{credentials}@{at}?protocol=resp3");
        assert_eq!(trouble(&resp3).await.kind(), StoreErrorKind::Refused);
    }
    assert_eq!(trouble(&format!("redis://{at}")).await.kind(), StoreErrorKind::Refused);
    let store = RedisStore::open(&format!("redis://:opensesame@{at}"), None).expect("a valid URL");
    store.look("k").await.expect("the right password");
}

#[tokio::test]
async fn a_user_without_permission_is_refused() {
    let server = RedisServer::start();
    let mut plain = server.client().await;
    let () = raw(&mut plain, "ACL SETUSER reader on >secret ~* +@read +@connection").await;
    let error = trouble(&format!("redis://reader:secret@127.0.0.1:{}", server.port())).await;
    assert_eq!(error.kind(), StoreErrorKind::Refused);
}

#[tokio::test]
async fn a_closed_port_is_unreachable() {
    let mut server = RedisServer::start();
    let url = format!("redis://:secret@127.0.0.1:{}", server.port());
    server.kill();
    let error = trouble(&url).await;
    assert_eq!(error.kind(), StoreErrorKind::Unreachable);
    assert!(error.to_string().contains(&format!("redis://127.0.0.1:{}/0", server.port())), "{error}");
}

#[test]
fn a_malformed_url_is_refused_with_the_right_form() {
    for (url, namespace) in [
        ("redis//:secret@host", None),
        ("secret", None),
        ("valkey://:secret@host/a", None),
        ("redis://host", Some("a{b}")),
        ("redis://host", Some("lock")),
    ] {
        let error = RedisStore::open(url, namespace).expect_err(url);
        assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
        assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
    }
}

#[tokio::test]
async fn claim_succeeds_beside_thousands_of_expired_slots() {
    let server = RedisServer::start();
    let store = RedisStore::open(&server.url(), None).unwrap();
    let client = Client::new(store);
    let now = client.ping().await.unwrap().at;
    let ended = |number: i64| Lease {
        token: format!("crashed-{number}").into(),
        fence: number,
        ..Lease::claimed(
            &claim_what("crashed", LONG, ClaimPurpose::Slot(9_000)),
            Timestamp::from_micros(number),
            now,
        )
    };
    let (slots, slots_since) = ((1..=9_000).map(ended).collect(), Timestamp::from_micros(1));
    let state = KeyState { slots, slots_since, expires: Some(now + 2 * LONG), ..KeyState::default() };
    let change = Change { state: Some(Arc::new(state)), fence: FenceChange::Next, ..Change::default() };
    let swap = Swap { expected: None, expected_lock: None, nonce: 1, change };
    let swapped = client.store().swap("k#slots", &swap).await.unwrap();
    assert!(matches!(swapped, SwapReply::Swapped(_)), "{swapped:?}");

    let won = client.claim("k", &claim_what("a", LONG, ClaimPurpose::Slot(1))).await.unwrap().reply.decision;
    assert!(matches!(won, ClaimDecision::Won(_)), "{won:?}");
    let held = client.store().look("k#slots").await.unwrap().state.slots.clone();
    assert_eq!(held.iter().map(|slot| &*slot.server).collect::<Vec<_>>(), ["a"]);
}
