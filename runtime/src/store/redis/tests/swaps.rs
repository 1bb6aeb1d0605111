//! Swaps and looks: what they mean, and what other programs and other versions leave behind.

use super::*;

#[tokio::test]
async fn swap_means_what_record_swap_says() {
    let server = Server::start(&[]).await;
    let store = server.store();
    let (mut record, mut held) = (None, None);
    let mut random = 1_u64;
    let mut next = move |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    let mut applied = 0;
    let mut look = store.look("key").await.unwrap();
    for round in 0..2000_i64 {
        let now = look.now;
        let second = Duration::from_secs(1);
        let limit = |kind| match kind {
            0 => Some(now - second),
            1 => Some(now + second * 60),
            _ => None,
        };
        let mut swap = swap(
            &look,
            Change {
                not_before: limit(next(12)),
                not_after: limit(next(12)),
                state: (next(6) > 0).then(|| state(round)),
                fence: match next(4) {
                    0 => FenceChange::Next,
                    1 => FenceChange::AtLeast((now + second * u32::try_from(next(60)).unwrap()).as_micros()),
                    _ => FenceChange::Keep,
                },
                lock: match next(4) {
                    0 => LockChange::Delete,
                    1 => LockChange::Set {
                        token: format!("token {round}").into(),
                        until: Timestamp::from_micros((now + second * 60).as_micros() / 1000 * 1000),
                    },
                    _ => LockChange::Leave,
                },
                records: (0..next(3)).map(|index| skip(round * 10 + i64::try_from(index).unwrap())).collect(),
                keep: usize::try_from(next(4)).unwrap(),
                ..Change::default()
            },
        );
        swap.nonce = next(u64::MAX);
        if next(8) == 0 {
            swap.expected = None;
        }
        if next(8) == 0 {
            swap.expected_lock = Some("another".into());
        }
        let reply = store.swap("key", &swap).await.unwrap();
        let expected = Record::swap(&mut record, Some(&mut held), reply.now(), &swap);
        match (reply, expected) {
            (SwapReply::Changed(found), SwapReply::Changed(expected)) => {
                assert_shows(found, &expected, round);
            }
            (reply, expected) => {
                assert_eq!(reply, expected, "round {round}: {swap:?}");
                applied += 1;
            }
        }
        look = store.look("key").await.unwrap();
        let expected = Record::look(record.as_ref(), held.as_ref(), look.now);
        assert_shows(look.clone(), &expected, round);
        let records = record.as_ref().map(|record| record.records.clone()).unwrap_or_default();
        assert_eq!(store.records(&["key".to_owned()], 99).await.unwrap(), [records], "round {round}");
    }
    assert!((500..1900).contains(&applied), "{applied} of 2000 swaps were applied");
}

#[tokio::test]
async fn foreign_locks_are_seen_and_compared() {
    let server = Server::start(&[]).await;
    let store = server.store();
    server.send("HSET lock:hash a b").await;
    server.send("SET lock:text other PX 60000").await;
    let mut set = redis::cmd("SET");
    set.arg("lock:bytes").arg(b"\xff\x00\xfe".as_slice());
    set.exec_async(&mut server.connection().await.unwrap()).await.unwrap();
    for (key, expires) in [("hash", false), ("text", true), ("bytes", false)] {
        let look = store.look(key).await.unwrap();
        let foreign: SharedLock = look.lock.clone().unwrap_or_else(|| panic!("no lock of {key}"));
        assert_eq!((look.version, foreign.until.is_some()), (None, expires), "{key}");
        let unlocked = Look { lock: None, ..look.clone() };
        let SwapReply::Changed(changed) = store.swap(key, &swap(&unlocked, claim(1))).await.unwrap() else {
            panic!("the lock of {key} was overlooked");
        };
        assert_eq!(changed.lock.unwrap().token, foreign.token, "{key}");
        swapped(&store, key, &swap(&look, Change { lock: LockChange::Delete, ..claim(1) })).await;
        assert_eq!(store.look(key).await.unwrap().lock, None, "{key}");
    }
}

#[tokio::test]
async fn record_of_another_format_is_refused_by_name() {
    let server = Server::start(&[]).await;
    let store = server.store();
    server.send("HSET {lock:old}:state format 1 token t fence 7").await;
    server.send(r#"SET {lock:newer}:state {"version":"7-7","fence":7,"state":{"format":4}}"#).await;
    server.send("SET {lock:text}:state a").await;
    let mut empty = redis::cmd("SET");
    empty.arg("{lock:empty}:state").arg("");
    empty.exec_async(&mut server.connection().await.unwrap()).await.unwrap();
    let nothing = Look::nothing(Timestamp::now());
    for (key, words) in [
        ("old", "{lock:old}:state is not a string: an older version (format 1)"),
        ("newer", "{lock:newer}:state has format 4, and this version reads format 3"),
        ("text", "{lock:text}:state is not the record of a key"),
        ("empty", "{lock:empty}:state is not a string"),
    ] {
        let refused = store.swap(key, &swap(&nothing, claim(1))).await.unwrap_err();
        assert_eq!(refused.kind(), StoreErrorKind::Unreadable, "{refused}");
        assert!(refused.to_string().contains(words), "{refused}");
        let error = store.look(key).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Unreadable, "{error}");
    }
    assert_eq!(store.list(None).await.unwrap().keys, []);
    let jobs = ["old", "newer", "text", "new"].map(str::to_owned);
    let findings = store.diagnose(&jobs).await.unwrap();
    assert!(findings.iter().any(|finding| finding.message.contains("old, newer, text was")), "{findings:?}");
}

#[tokio::test]
async fn list_of_wrong_type_fails_before_anything_is_written() {
    let server = Server::start(&[]).await;
    let store = server.store();
    server.send("SET {lock:key}:skips text").await;
    let look = store.look("key").await.unwrap();
    let change = Change { records: vec![skip(1)], keep: 9, ..claim(1) };
    let error = store.swap("key", &swap(&look, change)).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unreadable, "{error}");
    assert_eq!(store.look("key").await.unwrap().version, None);
}

#[tokio::test]
async fn full_server_refuses_claims_and_takes_extensions_and_releases() {
    let server = Server::start(&[]).await;
    let store = server.store();
    let look = store.look("key").await.unwrap();
    swapped(&store, "key", &swap(&look, claim(1))).await;
    server.send("CONFIG SET maxmemory 1").await;
    let look = store.look("key").await.unwrap();
    let error = store.swap("key", &swap(&look, claim(2))).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Full, "{error}");
    assert_eq!(store.look("key").await.unwrap().version, look.version);

    let until = look.now + Duration::from_secs(60);
    let set_lock = LockChange::Set { token: "token".into(), until };
    for fence in [FenceChange::Keep, FenceChange::AtLeast(1)] {
        let look = store.look("key").await.unwrap();
        let change = Change { fence, lock: set_lock.clone(), records: vec![skip(1)], keep: 9, ..claim(2) };
        swapped(&store, "key", &swap(&look, change)).await;
    }
    let look = store.look("key").await.unwrap();
    swapped(&store, "key", &swap(&look, Change { lock: LockChange::Delete, ..Change::default() })).await;
    let look = store.look("key").await.unwrap();
    assert_eq!((look.version, look.lock), (None, None));
}

#[tokio::test]
async fn record_expires_after_its_instant_and_not_at_once() {
    let server = Server::start(&[]).await;
    let store = server.store();
    let look = store.look("key").await.unwrap();
    let expiring = |expires| Arc::new(KeyState { expires: Some(expires), ..KeyState::default() });
    let past = Change { state: Some(expiring(Timestamp::from_micros(0))), ..claim(1) };
    swapped(&store, "key", &swap(&look, past)).await;
    let look = store.look("key").await.unwrap();
    assert!(look.version.is_some());
    // A state that stays is kept, whatever was said of it before.
    swapped(&store, "key", &swap(&look, claim(2))).await;
    assert_eq!(server.send("PTTL {lock:key}:state").await, redis::Value::Int(-1));
    let look = store.look("key").await.unwrap();
    let soon = Change { state: Some(expiring(look.now)), ..claim(3) };
    swapped(&store, "key", &swap(&look, soon)).await;
    tokio::time::sleep(Duration::from_millis(1200)).await;
    assert_eq!(store.look("key").await.unwrap().version, None);
}

#[test]
fn namespace_called_lock_is_refused() {
    let error = RedisStore::open("redis://host", Some("lock")).unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
    assert!(error.to_string().contains("`lock` is part of the names"), "{error}");
}

#[tokio::test]
async fn version_is_made_of_the_clock_and_the_nonce() {
    let server = Server::start(&[]).await;
    let store = server.store();
    let look = store.look("key").await.unwrap();
    let done = swapped(&store, "key", &Swap { nonce: u64::MAX, ..swap(&look, claim(1)) }).await;
    assert_eq!(done.version, Version { at: done.now, nonce: u64::MAX });
    assert_eq!(done.fence, done.now.as_micros());
}
