//! What is measured: claims that lose, and claims that win and are released.

use std::sync::Arc;
use std::time::Duration;

use jobs::Timestamp;
use jobs::history::RunOutcome;
use jobs::schedule::{Missed, Overlap};
use jobs::store::redis::RedisStore;
use jobs::store::{
    Claim, ClaimDecision, ClaimPurpose, Ending, KeyState, Record, RunDetails, Store, TickClaim,
};
use jobs::testing::store::Client;
use redis::aio::MultiplexedConnection;
use rslock::LockManager;
use uuid::Uuid;

const TTL: Duration = Duration::from_secs(60);

type LookAnswer = (Option<String>, Option<String>, (i64, i64));

/// As long as the record of a run.
const RECORD: &str = r#"{"tick":1800014400000000,"server":"bench-1-abcdef","fence":1800014400000000,"attempt":1,"started":1800014400000000,"ended":1800014400000000,"outcome":"succeeded"}"#;

/// A claim's steps, as this crate, a bare client and rslock take them.
pub struct Claims {
    pub client: Client,
    pub bare: MultiplexedConnection,
    swap: redis::Script,
    rslock: LockManager,
    /// Asks for a tick that is decided, of every key.
    losing: Claim,
    pub namespace: String,
}

impl Claims {
    pub async fn new(url: &str) -> Self {
        let namespace = format!("bench-{}", &Uuid::new_v4().simple().to_string()[..8]);
        let store = RedisStore::open(url, Some(&namespace)).expect("a Redis URL");
        let bare = redis::Client::open(url).expect("a Redis URL");
        let bare = bare.get_multiplexed_async_connection().await.expect("a Redis that answers");
        let mut rslock = LockManager::new(vec![url.to_owned()]);
        rslock.set_retry(1, Duration::ZERO);
        let swap = redis::Script::new(include_str!("../../src/store/redis/commands/swap.lua"));
        let losing = Self::claim(Timestamp::now().as_micros() - 3_600_000_000);
        Self { client: Client::of(Arc::new(store) as Arc<dyn Store>), bare, swap, rslock, losing, namespace }
    }

    /// The keys that are lost: each has a decided tick, and a lock that is held.
    pub async fn decide_a_tick(&self, keys: usize) {
        for key in 0..keys {
            let winning = Claim { token: Uuid::new_v4().to_string().into(), ..self.losing.clone() };
            let won = self.client.acquire(&format!("lost-{key}"), &winning).await;
            if let Some(lease) = won.expect("a Redis that answers") {
                let end = Ending::of(RunOutcome::Succeeded, 100);
                lease.release(&end).await.expect("a Redis that answers");
            }
            let held: Option<String> = redis::cmd("SET")
                .arg(self.held(key))
                .arg("token")
                .arg("NX")
                .query_async(&mut self.bare.clone())
                .await
                .expect("a Redis that answers");
            drop(held);
        }
    }

    fn held(&self, key: usize) -> String {
        format!("{}:held-{key}", self.namespace)
    }

    pub fn claim(tick: i64) -> Claim {
        Claim {
            token: Uuid::new_v4().to_string().into(),
            server: "bench-1-abcdef".into(),
            ttl: TTL,
            remember: 100,
            details: RunDetails::default(),
            what: ClaimPurpose::Tick(TickClaim {
                tick: Timestamp::from_micros(tick),
                // Ticks follow each other here: none is missed between two.
                previous: None,
                delay: Duration::ZERO,
                grace: 10 * TTL * 60,
                only_takes_over: false,
                overlap: Overlap::Skip,
                takeovers: 0,
                missed: Missed::Skip,
                schedule: "* * * * *".into(),
                known_for: Duration::from_secs(36_000),
            }),
        }
    }

    pub async fn lose(&self, task: usize) {
        let answer = self.client.claim(&format!("lost-{task}"), &self.losing).await;
        let verdict = answer.expect("a Redis that answers").reply;
        assert!(matches!(verdict.decision, ClaimDecision::Taken(_)), "{verdict:?}");
    }

    pub async fn bare_look(&self, task: usize) {
        let lock = format!("{}:lock:lost-{task}", self.namespace);
        let state = self.look(&lock).await.expect("a record").1;
        assert!(state.mark.is_some());
    }

    /// The version and the state of a record, by the commands of a look.
    async fn look(&self, lock: &str) -> Option<(String, Arc<KeyState>)> {
        let record = format!("{{{lock}}}:state");
        let mut pipeline = redis::pipe();
        pipeline.cmd("GET").arg(&record).cmd("GET").arg(lock).cmd("TIME");
        let answer: LookAnswer =
            pipeline.query_async(&mut self.bare.clone()).await.expect("a Redis that answers");
        let record = Record::from_first_line(answer.0?).expect("a record");
        Some((record.version.to_string(), record.state))
    }

    pub async fn set_nx(&self, task: usize) {
        let mut set = redis::cmd("SET");
        set.arg(self.held(task)).arg(Uuid::new_v4().to_string()).arg("NX").arg("PX").arg(60_000);
        let set: Option<String> =
            set.query_async(&mut self.bare.clone()).await.expect("a Redis that answers");
        assert_eq!(set, None);
    }

    pub async fn rslock_loses(&self, task: usize) {
        assert!(self.rslock.lock(self.held(task).as_bytes(), TTL).await.is_err());
    }

    pub async fn win(&self, task: usize) {
        let key = format!("won-{task}");
        let claim = Self::claim(Timestamp::now().as_micros());
        let lease = self.client.acquire(&key, &claim).await.expect("a Redis that answers").expect("free");
        let end = Ending::of(RunOutcome::Succeeded, 100);
        lease.release(&end).await.expect("a Redis that answers");
    }

    /// A look, a swap that sets the lock, and one that deletes it: what a claim and a release send.
    pub async fn bare_win(&self, task: usize) {
        let lock = format!("{}:lock:bare-{task}", self.namespace);
        let token = Uuid::new_v4().to_string();
        let looked = self.look(&lock).await;
        let (version, state) = match looked {
            Some(looked) => looked,
            // As large as a job's.
            None => (
                String::new(),
                self.look(&format!("{}:lock:lost-0", self.namespace)).await.expect("decided").1,
            ),
        };
        let mut state = KeyState::clone(&state);
        if let Some(claimant) = &mut state.claimant {
            claimant.token = token.as_str().into();
        }
        state.released = false;
        let claimed = self.bare_swap(&lock, &version, "", &state, &token).await;
        state.released = true;
        self.bare_swap(&lock, &claimed, &format!("={token}"), &state, "").await;
    }

    async fn bare_swap(
        &self,
        lock: &str,
        version: &str,
        held: &str,
        state: &KeyState,
        token: &str,
    ) -> String {
        let claims = !token.is_empty();
        let until = Timestamp::now().as_micros() / 1000 + 60_000;
        let mut call = self.swap.prepare_invoke();
        call.key(lock);
        let lists: &[&str] = if claims { &[] } else { &["runs"] };
        for part in ["state", "awaited"].iter().chain(lists) {
            call.key(format!("{{{lock}}}:{part}"));
        }
        call.arg(version).arg(held).arg(i64::MIN).arg(i64::MAX).arg(format!("{:016x}", 7));
        call.arg(state.to_json()).arg("").arg(if claims { "next" } else { "keep" });
        if claims {
            call.arg(token).arg(until);
        } else {
            call.arg("").arg("-");
        }
        call.arg(100).arg(u8::from(!claims));
        if !claims {
            call.arg(RECORD);
        }
        let (at, _): (String, String) = call.invoke_async(&mut self.bare.clone()).await.expect("swapped");
        format!("{at}-{:016x}", 7)
    }

    pub async fn rslock_wins(&self, task: usize) {
        let lock = self.rslock.lock(format!("{}:rslock-{task}", self.namespace).as_bytes(), TTL).await;
        self.rslock.unlock(&lock.expect("free")).await;
    }
}
