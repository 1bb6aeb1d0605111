//! The same guarantees on real stores, between servers with connections of their own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use jobs::fleet::LeaseKind;
use jobs::locks::{LockError, OnceOutcome};
use jobs::store::file::FileStore;
use jobs::store::memory::MemoryStore;
use jobs::store::postgres::PostgresStore;
use jobs::store::redis::RedisStore;
use jobs::{Builder, Jobs};
use tokio::time::Instant;

use support::folder::TempFolder;
use support::postgres_server::PostgresServer;
use support::redis_cluster::RedisCluster;
use support::redis_server::RedisServer;

/// A store that several servers share.
trait Ground {
    fn server(&self) -> Builder;

    async fn start(&self) -> Jobs {
        self.server().without_jobs().shutdown_grace(Duration::from_secs(2)).start_all().await.unwrap()
    }
}

struct Memory(MemoryStore);
struct Files(TempFolder);
struct Redis(Arc<RedisServer>, &'static str);
struct Cluster(&'static RedisCluster, &'static str);
struct Postgres(&'static PostgresServer, &'static str);

impl Ground for Memory {
    fn server(&self) -> Builder {
        jobs::builder().store(self.0.clone())
    }
}

impl Ground for Files {
    fn server(&self) -> Builder {
        jobs::builder().store(FileStore::open(self.0.path(), None).unwrap())
    }
}

impl Ground for Redis {
    fn server(&self) -> Builder {
        jobs::builder().store(RedisStore::open(&self.0.url(), Some(self.1)).unwrap())
    }
}

impl Ground for Cluster {
    fn server(&self) -> Builder {
        jobs::builder().store(RedisStore::open(&self.0.url(""), Some(self.1)).unwrap())
    }
}

impl Ground for Postgres {
    fn server(&self) -> Builder {
        jobs::builder().store(PostgresStore::open(&self.0.url(), Some(self.1)).unwrap())
    }
}

macro_rules! on_every_store {
    ($($promise:ident,)+) => {
        mod memory { $(
            #[tokio::test]
            async fn $promise() {
                super::$promise(&super::Memory(super::MemoryStore::named(stringify!($promise)))).await;
            }
        )+ }
        mod files { $(
            #[tokio::test]
            async fn $promise() {
                super::$promise(&super::Files(super::TempFolder::in_memory())).await;
            }
        )+ }
        mod redis { $(
            #[tokio::test]
            async fn $promise() {
                super::$promise(&super::Redis(super::RedisServer::shared(), stringify!($promise))).await;
            }
        )+ }
        mod redis_cluster { $(
            #[tokio::test]
            async fn $promise() {
                let cluster = tokio::task::spawn_blocking(super::RedisCluster::shared).await.unwrap();
                super::$promise(&super::Cluster(cluster, stringify!($promise))).await;
            }
        )+ }
        mod postgres { $(
            #[tokio::test]
            async fn $promise() {
                let server = tokio::task::spawn_blocking(super::PostgresServer::shared).await.unwrap();
                super::$promise(&super::Postgres(server, stringify!($promise))).await;
            }
        )+ }
    };
}

on_every_store! {
    lock_has_one_holder_at_a_time_and_growing_fences,
    holders_never_exceed_the_slots_of_a_semaphore,
    work_is_done_once_by_all_servers,
    leadership_passes_to_a_follower,
    held_lock_is_listed_and_can_be_broken,
    shorter_lease_counts_from_now,
}

/// Detects two holders at the same time.
#[derive(Default)]
struct Room {
    inside: AtomicBool,
    crowded: AtomicBool,
    fence: AtomicI64,
}

impl Room {
    async fn visit(&self, fence: i64) {
        let crowded = self.inside.swap(true, Ordering::SeqCst);
        let behind = self.fence.swap(fence, Ordering::SeqCst) >= fence;
        self.crowded.fetch_or(crowded || behind, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(2)).await;
        self.inside.store(false, Ordering::SeqCst);
    }

    fn was_crowded(&self) -> bool {
        self.crowded.load(Ordering::SeqCst)
    }
}

/// The control: without a lock the detector reports an overlap.
#[tokio::test]
async fn without_a_lock_two_holders_overlap() {
    let room = Room::default();
    tokio::join!(room.visit(1), room.visit(2));
    assert!(room.was_crowded());
}

async fn lock_has_one_holder_at_a_time_and_growing_fences(ground: &impl Ground) {
    let servers = [ground.start().await, ground.start().await, ground.start().await];
    let room = Room::default();
    let work = |server: &Jobs| {
        let (lock, room) = (server.lock("k").ttl("20s").wait("60s"), &room);
        async move {
            for _ in 0..8 {
                lock.clone().run(async |run| room.visit(run.fence()).await).await.unwrap();
            }
        }
    };
    let [one, two, three] = &servers;
    tokio::join!(work(one), work(one), work(two), work(two), work(three));
    assert!(!room.was_crowded(), "two at once, or a fence that did not grow");
    assert!(one.locks().await.unwrap().is_empty());
    for server in servers {
        server.shutdown().await;
    }
}

async fn holders_never_exceed_the_slots_of_a_semaphore(ground: &impl Ground) {
    let servers = [ground.start().await, ground.start().await];
    let (inside, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let call = |server: &Jobs| {
        let slots = server.semaphore("api", 3).ttl("20s").wait("60s");
        let (inside, most) = (&inside, &most);
        async move {
            let run = slots.run(async |_| {
                most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(100)).await;
                inside.fetch_sub(1, Ordering::SeqCst);
            });
            run.await.unwrap();
        }
    };
    let [one, two] = &servers;
    let full = async {
        let give_up = Instant::now() + Duration::from_secs(20);
        while one.semaphore("api", 3).holders().await.unwrap().len() < 2 && Instant::now() < give_up {}
    };
    tokio::join!(
        call(one),
        call(one),
        call(one),
        call(one),
        call(two),
        call(two),
        call(two),
        call(two),
        full
    );
    assert!((2..=3).contains(&most.load(Ordering::SeqCst)), "{most:?}");
    assert!(one.semaphore("api", 3).holders().await.unwrap().is_empty());
    for server in servers {
        server.shutdown().await;
    }
}

async fn work_is_done_once_by_all_servers(ground: &impl Ground) {
    let servers = [ground.start().await, ground.start().await];
    let tries = AtomicUsize::new(0);
    let attempt = |server: &Jobs| {
        let once = server.once("webhook:42").wait("60s");
        let tries = &tries;
        async move {
            once.run(async |_| {
                let first = tries.fetch_add(1, Ordering::SeqCst) == 0;
                tokio::time::sleep(Duration::from_millis(50)).await;
                if first { Err("on purpose") } else { Ok(()) }
            })
            .await
        }
    };
    let [one, two] = &servers;
    let results = tokio::join!(attempt(one), attempt(two), attempt(one), attempt(two));
    let results = [results.0, results.1, results.2, results.3];
    assert_eq!(tries.load(Ordering::SeqCst), 2, "one failed, one succeeded: {results:?}");
    let done = results.iter().filter(|result| matches!(result, Ok(OnceOutcome::AlreadyDone(_)))).count();
    assert_eq!(done, 2, "{results:?}");
    for server in servers {
        server.shutdown().await;
    }
}

async fn leadership_passes_to_a_follower(ground: &impl Ground) {
    let (old, new) = (ground.start().await, ground.start().await);
    let leading = old.leader("cron").ttl("60s").campaign().unwrap();
    let term = leading.elected().await.unwrap();
    let following = new.leader("cron").ttl("60s").campaign().unwrap();
    let mut watched = following.watch();
    let follows = watched.wait_for(|status| matches!(status, jobs::locks::LeaderStatus::Following(_)));
    drop(tokio::time::timeout(Duration::from_secs(20), follows).await.expect("it learns who leads").unwrap());
    drop(term);
    old.shutdown().await;
    let next = tokio::time::timeout(Duration::from_secs(20), following.elected()).await;
    let next = next.expect("long before the ttl").unwrap();
    assert!(following.is_leader() && next.fence() > 0);
    assert!(!leading.is_leader());
    drop(next);
    new.shutdown().await;
}

async fn held_lock_is_listed_and_can_be_broken(ground: &impl Ground) {
    let (holder, operator) = (ground.start().await, ground.start().await);
    let guard = holder.lock("payment:123").ttl("1s").acquire().await.unwrap();
    let listed = operator.locks().await.unwrap();
    assert_eq!(
        (listed.len(), listed[0].kind, listed[0].fence),
        (1, Some(LeaseKind::Lock), Some(guard.fence()))
    );
    assert_eq!(listed[0].holder.server.as_deref(), Some(holder.server_id()));
    let broken = operator.break_lock("payment:123").await.unwrap();
    assert_eq!(broken[0].fence, Some(guard.fence()));
    tokio::time::timeout(Duration::from_secs(20), guard.lost()).await.expect("it is told");
    assert!(matches!(guard.release().await, Err(LockError::Lost { .. })));
    holder.shutdown().await;
    operator.shutdown().await;
}

async fn shorter_lease_counts_from_now(ground: &impl Ground) {
    let (one, other) = (ground.start().await, ground.start().await);
    let guard = one.lock("k").ttl("120s").keep_alive(false).acquire().await.unwrap();
    guard.extend("2s").await.unwrap();
    let next = other.lock("k").wait("60s").acquire().await.expect("after two seconds, not 120");
    assert!(guard.is_lost(), "before the store let another in");
    assert!(next.fence() > guard.fence());
    drop(next);
    one.shutdown().await;
    other.shutdown().await;
}
