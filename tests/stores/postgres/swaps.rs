//! A swap is all or nothing, at every isolation level and through a pooler.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use jobs::Timestamp;
use jobs::history::{Progress, RunOutcome, RunRecord, Skip, SkipRecord};
use jobs::store::postgres::PostgresStore;
use jobs::store::{
    Change, Claim, ClaimPurpose, FenceChange, JobRecord, KeyState, Lease, Record, RunDetails, Store,
    StoreErrorKind, Swap, SwapReply, Swapped, Trigger, Version,
};

use super::{ISOLATION_LEVELS, store_at, unused_name};
use support::pooler::Pooler;
use support::postgres_server::{PATIENCE, PostgresServer};

/// Each isolation level, and a pooler.
fn urls() -> Vec<String> {
    let direct = PostgresServer::shared().url();
    let levels = ISOLATION_LEVELS.map(|level| format!("{direct}?{level}"));
    levels.into_iter().chain([Pooler::shared().url()]).collect()
}

/// A state that a server could have written, with all kinds of characters.
fn state(server: &str) -> KeyState {
    let at = Timestamp::from_micros(1_800_000_000_000_000);
    let (token, ttl, what) = ("token".into(), Duration::from_micros(5), ClaimPurpose::Now);
    let claim =
        Claim { token, server: server.into(), ttl, what, remember: 3, details: RunDetails::default() };
    let claimant = Lease {
        progress: Some(Progress { done: 1, total: 2, status: "Grüße, 世界 🎉 \0 ' \\ \"".to_owned() }),
        ..Lease::claimed(&claim, at, at)
    };
    KeyState { claimant: Some(claimant), expires: None, ..KeyState::default() }
}

fn swap(expected: Option<Version>, state: Option<KeyState>) -> Swap {
    let change =
        Change { state: state.map(Arc::new), fence: FenceChange::Next, keep: 3, ..Change::default() };
    Swap { expected, expected_lock: None, nonce: RandomState::new().hash_one(()), change }
}

fn run(number: i64) -> JobRecord {
    let [started, ended] = [number, number + 1].map(Timestamp::from_micros);
    JobRecord::Run(RunRecord {
        tick: Some(started),
        server: "sörver".to_owned(),
        fence: number,
        attempt: 1,
        started,
        ended,
        outcome: RunOutcome::Failed,
        error: Some("äöü 世 \0 boom".to_owned()),
        failed_tries: Vec::new(),
        log: None,
        progress: None,
        request: None,
        trigger: Trigger::Schedule,
        by: None,
        stopped_by: None,
        app_version: None,
    })
}

fn skip(number: i64) -> JobRecord {
    let at = Timestamp::from_micros(number);
    JobRecord::Skip(SkipRecord::new(at, Skip::Paused, "s", at))
}

async fn swapped(store: &PostgresStore, key: &str, swap: &Swap) -> Swapped {
    match store.swap(key, swap).await.expect("swap") {
        SwapReply::Swapped(swapped) => swapped,
        SwapReply::Changed(look) => panic!("the swap should have been applied, but: {look:?}"),
    }
}

/// Numbers that are the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    fn swap(&mut self, round: i64, now: Timestamp, version: Option<Version>, fence: i64) -> Swap {
        let expected = match self.below(6) {
            0 => None,
            1 => Some(Version { at: now, nonce: 1 }),
            _ => version,
        };
        let state = (self.below(8) > 0).then(|| state(&format!("server-{round}")));
        let mut swap = swap(expected, state);
        swap.expected_lock = (self.below(2) == 0).then(|| "whatever".into());
        let far = Duration::from_secs(60);
        match self.below(8) {
            0 => swap.change.not_before = Some(now + far),
            1 => swap.change.not_after = Some(now - far),
            2 => (swap.change.not_before, swap.change.not_after) = (Some(now), Some(now + far)),
            _ => {}
        }
        swap.change.fence = match self.below(5) {
            0 => FenceChange::Keep,
            1 => FenceChange::AtLeast(fence.saturating_add(5)),
            2 => FenceChange::AtLeast(-7),
            3 if self.below(20) == 0 => FenceChange::AtLeast(i64::MAX),
            _ => FenceChange::Next,
        };
        for number in 0..i64::try_from(self.below(5)).unwrap() {
            let appended = if self.below(2) == 0 { run(round * 10 + number) } else { skip(round) };
            swap.change.records.push(appended);
        }
        swap.change.keep = usize::try_from(self.below(5)).unwrap();
        swap.change.notify = self.below(3) == 0;
        swap
    }
}

#[tokio::test]
async fn random_swaps_agree_with_the_reference_record_at_every_isolation_level() {
    for url in urls() {
        let store = store_at(&url, &unused_name());
        let (mut dice, mut records) = (Dice(12_345), [const { None::<Record> }; 3]);
        let (mut applied, mut refused) = (0, 0);
        for round in 0..600 {
            let index = usize::try_from(dice.below(3)).unwrap();
            let (key, record) = (format!("key/{index}#slots"), &mut records[index]);
            let look = store.look(&key).await.expect("look");
            assert_eq!(look, Record::look(record.as_ref(), None, look.now));
            let stored =
                store.records(std::slice::from_ref(&key), usize::MAX).await.expect("records").remove(0);
            assert_eq!(stored, record.as_ref().map(|record| record.records.clone()).unwrap_or_default());
            let swap = dice.swap(round, look.now, look.version, look.fence);
            let reply = store.swap(&key, &swap).await.expect("swap");
            assert_eq!(
                Record::swap(record, None, reply.now(), &swap),
                reply,
                "{url}, round {round}: {swap:?}"
            );
            match reply {
                SwapReply::Swapped(_) => applied += 1,
                SwapReply::Changed(_) => refused += 1,
            }
        }
        assert!(applied > 100 && refused > 100, "{applied} applied, {refused} refused");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exactly_one_of_the_swaps_from_a_version_applies_at_every_isolation_level() {
    for url in urls() {
        let namespace = unused_name();
        let stores: Vec<_> = (0..12).map(|_| Arc::new(store_at(&url, &namespace))).collect();
        for store in &stores {
            store.look("key").await.expect("look");
        }
        let (mut fence, mut version) = (0, None);
        for round in 0..60_usize {
            let deletes = round % 5 == 4;
            let racing: Vec<_> = stores
                .iter()
                .map(|store| {
                    let store = Arc::clone(store);
                    let mut swap = swap(version, (!deletes).then(|| state("racer")));
                    if !deletes {
                        swap.change.records = vec![run(i64::try_from(round).unwrap())];
                    }
                    tokio::spawn(async move { store.swap("key", &swap).await })
                })
                .collect();
            let (mut applied, mut shown) = (Vec::new(), Vec::new());
            for racer in racing {
                match racer.await.expect("no panic").expect("a conflict is no error") {
                    SwapReply::Swapped(swapped) => applied.push(swapped),
                    SwapReply::Changed(look) => shown.push(look),
                }
            }
            let [swapped] = applied.as_slice() else { panic!("{url}, round {round}: {applied:?}") };
            assert!(
                shown.iter().all(|look| look.version != version),
                "a refused swap shows what has changed"
            );
            assert!(swapped.fence > fence, "{} is not above {fence}", swapped.fence);
            fence = swapped.fence;
            version = (!deletes).then_some(swapped.version);
            assert_eq!(stores[0].look("key").await.expect("look").version, version);
            let records =
                stores[0].records(&["key".to_owned()], usize::MAX).await.expect("records")[0].runs.len();
            assert_eq!(
                records,
                if deletes { 0 } else { (round % 5 + 1).min(3) },
                "one record per round, three kept"
            );
        }
    }
}

/// A lock that is deleted by its release: the fence rests on the clock alone, and must still grow.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_of_a_key_that_comes_and_goes_do_not_overlap_and_their_fences_grow() {
    for url in urls() {
        let namespace = unused_name();
        let (begun, leases) = (Instant::now(), Arc::new(AtomicUsize::new(0)));
        let clients: Vec<_> = (0..8)
            .map(|_| {
                let (store, leases) = (store_at(&url, &namespace), Arc::clone(&leases));
                tokio::spawn(async move {
                    let mut held = Vec::new();
                    for round in 0..u64::MAX {
                        // For a second, or longer on a busy machine.
                        let is_enough = leases.load(Ordering::Relaxed) > 20 || begun.elapsed() > PATIENCE;
                        if begun.elapsed() > Duration::from_secs(1) && is_enough {
                            break;
                        }
                        let insert = swap(None, Some(state("holder")));
                        let SwapReply::Swapped(won) = store.swap("key", &insert).await.expect("swap") else {
                            tokio::time::sleep(Duration::from_micros(round * 13 % 900)).await;
                            continue;
                        };
                        let since = Instant::now();
                        if round % 3 == 0 {
                            tokio::time::sleep(Duration::from_micros(round * 7 % 500)).await;
                        }
                        held.push((since, Instant::now(), won.fence));
                        leases.fetch_add(1, Ordering::Relaxed);
                        let mut delete = swap(Some(won.version), None);
                        delete.change.fence = FenceChange::Keep;
                        swapped(&store, "key", &delete).await;
                    }
                    held
                })
            })
            .collect();
        let mut held = Vec::new();
        for client in clients {
            held.extend(client.await.expect("no panic"));
        }
        held.sort();
        println!("{} leases", held.len());
        assert!(held.len() > 20, "only {} leases", held.len());
        for pair in held.windows(2) {
            assert!(pair[0].1 <= pair[1].0 && pair[0].2 < pair[1].2, "{url}: {pair:?}");
        }
    }
}

#[tokio::test]
async fn limits_of_a_swap_are_checked_after_it_has_waited_for_its_row() {
    let (server, namespace) = (PostgresServer::shared(), unused_name());
    let store = store_at(&server.url(), &namespace);
    let first = swapped(&store, "key", &swap(None, Some(state("a")))).await;
    let mut other = server.client().await;
    for limit in [Duration::from_millis(30), Duration::from_millis(100)] {
        let holding = other.transaction().await.unwrap();
        let row = format!("SELECT 1 FROM job_lock WHERE namespace = '{namespace}' FOR UPDATE");
        holding.batch_execute(&row).await.unwrap();
        let mut late = swap(Some(first.version), Some(state("b")));
        late.change.not_after = Some(store.look("key").await.unwrap().now + limit);
        let (reply, ()) = tokio::join!(store.swap("key", &late), async {
            tokio::time::sleep(limit + Duration::from_millis(15)).await;
            holding.rollback().await.unwrap();
        });
        let SwapReply::Changed(look) = reply.expect("a refusal") else { panic!("applied after its limit") };
        assert_eq!(look.version, Some(first.version));
    }
    // The control: without a limit it waits, and is applied.
    let holding = other.transaction().await.unwrap();
    let row = format!("SELECT 1 FROM job_lock WHERE namespace = '{namespace}' FOR UPDATE");
    holding.batch_execute(&row).await.unwrap();
    let patient = swap(Some(first.version), Some(state("c")));
    let (_, ()) = tokio::join!(swapped(&store, "key", &patient), async {
        tokio::time::sleep(Duration::from_millis(120)).await;
        holding.rollback().await.unwrap();
    });
}

#[tokio::test]
async fn swap_that_waits_for_a_locked_row_does_not_stall_other_requests_of_the_connection() {
    let (server, namespace) = (PostgresServer::shared(), unused_name());
    let store = store_at(&server.url(), &namespace).with_timeouts(PATIENCE, Duration::from_secs(2));
    let first = swapped(&store, "key", &swap(None, Some(state("a")))).await;
    let mut other = server.client().await;
    let holding = other.transaction().await.unwrap();
    let row = format!("SELECT 1 FROM job_lock WHERE namespace = '{namespace}' FOR UPDATE");
    holding.batch_execute(&row).await.unwrap();
    let blocked = swap(Some(first.version), Some(state("b")));
    let blocked = store.swap("key", &blocked);
    let mut version = None;
    let others = async {
        let mut took = Vec::new();
        for _ in 0..20 {
            let begun = Instant::now();
            version = Some(swapped(&store, "other", &swap(version, Some(state("a")))).await.version);
            took.push(begun.elapsed());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        took.sort();
        took
    };
    let (blocked, took) = tokio::join!(blocked, others);
    let error = blocked.expect_err("the row is locked");
    assert_eq!(error.kind(), StoreErrorKind::TimedOut, "{error}");
    println!("others took {took:?}");
    // Behind one wait of 50 ms at most, and on a busy machine longer now and then.
    assert!(took[took.len() / 2] < Duration::from_millis(200), "{took:?}");
    holding.rollback().await.unwrap();
    swapped(&store, "key", &swap(Some(first.version), Some(state("c")))).await;
}

#[tokio::test]
async fn keys_are_listed_in_pages_without_those_that_cannot_be_read() {
    let (server, namespace) = (PostgresServer::shared(), unused_name());
    let (store, client) = (store_at(&server.url(), &namespace), server.client().await);
    for number in 0..3 {
        swapped(&store, &format!("k{number:05}"), &swap(None, Some(state("a")))).await;
    }
    let more = format!(
        "INSERT INTO job_lock (namespace, job_name, version, fence, state)
         SELECT namespace, 'k' || lpad(n::text, 5, '0'), version, fence, state
         FROM job_lock, generate_series(3, 1004) AS n WHERE namespace = '{namespace}' AND job_name = 'k00000';
         UPDATE job_lock SET state = '{{\"format\":4}}' WHERE namespace = '{namespace}' AND job_name = 'k00007'"
    );
    client.batch_execute(&more).await.unwrap();
    let first = store.list(None).await.expect("list");
    assert_eq!(first.keys.len(), 999, "a page has 1,000 keys, and one cannot be read");
    let second = store.list(first.next.as_deref()).await.expect("list");
    assert_eq!((second.keys.len(), second.next), (5, None));
    let keys: Vec<_> = first.keys.iter().chain(&second.keys).map(|(key, _)| key.as_str()).collect();
    assert!(keys.is_sorted_by(|a, b| a < b) && !keys.contains(&"k00007"));
    assert_eq!(*first.keys[0].1.state, state("a"));
}
