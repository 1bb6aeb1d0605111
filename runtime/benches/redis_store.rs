//! What a claim costs on Redis, beside a bare client that sends the same commands, and beside rslock.
//!
//!     REDIS_URL=redis://127.0.0.1:6379 cargo bench -p singleton-jobs --features store-testing --bench redis_store
//!
//! All of them take turns in one process, since machines differ and are noisy: only the ratios count. `SECONDS` (1) sets how
//! long each turn lasts, `ROUNDS` (5) how many turns each of them gets; the median counts. `ONLY` names one of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

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

#[tokio::main]
async fn main() {
    let url = std::env::var("REDIS_URL").expect("REDIS_URL names a Redis that may be written to");
    let number = |name: &str, default| std::env::var(name).map_or(default, |text| text.parse().expect(name));
    let turn = Duration::from_secs(number("SECONDS", 1));
    let only = std::env::var("ONLY").ok();
    let bench = Arc::new(Bench::new(&url).await);

    for concurrency in [100, 1] {
        let mut rates = BTreeMap::<&str, Vec<f64>>::new();
        bench.decide_a_tick(concurrency).await;
        for _ in 0..number("ROUNDS", 5) {
            for contender in CONTENDERS.iter().filter(|c| only.as_deref().is_none_or(|only| only == c.name)) {
                let rate = measure(&bench, contender.call, concurrency, turn).await;
                rates.entry(contender.name).or_default().push(rate);
            }
        }
        if only.is_some() {
            println!("{concurrency} at a time: {rates:.0?}");
        } else {
            report(concurrency, &rates);
        }
    }
    bench.report_server_time().await;
    bench.report_tick_of_ten(&url).await;
}

type Call = fn(Arc<Bench>, usize) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

struct Contender {
    name: &'static str,
    call: Call,
}

const CONTENDERS: &[Contender] = &[
    Contender { name: "lose", call: |bench, task| Box::pin(async move { bench.lose(task).await }) },
    Contender {
        name: "lose, bare look",
        call: |bench, task| Box::pin(async move { bench.bare_look(task).await }),
    },
    Contender {
        name: "lose, bare SET NX",
        call: |bench, task| Box::pin(async move { bench.set_nx(task).await }),
    },
    Contender {
        name: "lose, rslock",
        call: |bench, task| Box::pin(async move { bench.rslock_loses(task).await }),
    },
    Contender { name: "win and release", call: |bench, task| Box::pin(async move { bench.win(task).await }) },
    Contender {
        name: "win and release, bare look-swap-swap",
        call: |bench, task| Box::pin(async move { bench.bare_win(task).await }),
    },
    Contender {
        name: "win and release, rslock",
        call: |bench, task| Box::pin(async move { bench.rslock_wins(task).await }),
    },
];

/// Calls per second.
async fn measure(bench: &Arc<Bench>, call: Call, concurrency: usize, turn: Duration) -> f64 {
    let begun = Instant::now();
    let tasks: Vec<_> = (0..concurrency)
        .map(|task| {
            let bench = bench.clone();
            tokio::spawn(async move {
                let mut calls = 0_u32;
                while begun.elapsed() < turn {
                    call(bench.clone(), task).await;
                    calls += 1;
                }
                calls
            })
        })
        .collect();
    let mut calls = 0.0;
    for task in tasks {
        calls += f64::from(task.await.expect("no call panics"));
    }
    calls / begun.elapsed().as_secs_f64()
}

fn report(concurrency: usize, rates: &BTreeMap<&str, Vec<f64>>) {
    let median = |name: &str| {
        let mut rates = rates[name].clone();
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    };
    println!("\n{concurrency} at a time                              calls/s   µs each");
    for contender in CONTENDERS {
        let rate = median(contender.name);
        println!("  {:38} {rate:9.0} {:9.1}", contender.name, 1e6 / rate);
    }
    let ratio = |ours: &str, other: &str| median(ours) / median(other);
    println!("  lose: {:.2} of a bare look", ratio("lose", "lose, bare look"));
    println!("  lose: {:.2} of rslock", ratio("lose", "lose, rslock"));
    println!("  lose: takes {:.2} times as long as a refused SET NX", ratio("lose, bare SET NX", "lose"));
    println!(
        "  win and release: {:.2} of bare look-swap-swap, {:.2} of rslock",
        ratio("win and release", "win and release, bare look-swap-swap"),
        ratio("win and release", "win and release, rslock")
    );
}

type LookAnswer = (Option<String>, Option<String>, (i64, i64));

/// As long as the record of a run.
const RECORD: &str = r#"{"tick":1800014400000000,"server":"bench-1-abcdef","fence":1800014400000000,"attempt":1,"started":1800014400000000,"ended":1800014400000000,"outcome":"succeeded"}"#;

struct Bench {
    client: Client,
    bare: MultiplexedConnection,
    swap: redis::Script,
    rslock: LockManager,
    /// Asks for a tick that is decided, of every key.
    losing: Claim,
    namespace: String,
}

impl Bench {
    async fn new(url: &str) -> Self {
        let namespace = format!("bench-{}", &Uuid::new_v4().simple().to_string()[..8]);
        let store = RedisStore::open(url, Some(&namespace)).expect("a Redis URL");
        let bare = redis::Client::open(url).expect("a Redis URL");
        let bare = bare.get_multiplexed_async_connection().await.expect("a Redis that answers");
        let mut rslock = LockManager::new(vec![url.to_owned()]);
        rslock.set_retry(1, Duration::ZERO);
        let swap = redis::Script::new(include_str!("../src/store/redis/commands/swap.lua"));
        let losing = Self::claim(Timestamp::now().as_micros() - 3_600_000_000);
        Self { client: Client::of(Arc::new(store) as Arc<dyn Store>), bare, swap, rslock, losing, namespace }
    }

    /// The keys that are lost: each has a decided tick, and a lock that is held.
    async fn decide_a_tick(&self, keys: usize) {
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

    fn claim(tick: i64) -> Claim {
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

    async fn lose(&self, task: usize) {
        let answer = self.client.claim(&format!("lost-{task}"), &self.losing).await;
        let verdict = answer.expect("a Redis that answers").reply;
        assert!(matches!(verdict.decision, ClaimDecision::Taken(_)), "{verdict:?}");
    }

    async fn bare_look(&self, task: usize) {
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

    async fn set_nx(&self, task: usize) {
        let mut set = redis::cmd("SET");
        set.arg(self.held(task)).arg(Uuid::new_v4().to_string()).arg("NX").arg("PX").arg(60_000);
        let set: Option<String> =
            set.query_async(&mut self.bare.clone()).await.expect("a Redis that answers");
        assert_eq!(set, None);
    }

    async fn rslock_loses(&self, task: usize) {
        assert!(self.rslock.lock(self.held(task).as_bytes(), TTL).await.is_err());
    }

    async fn win(&self, task: usize) {
        let key = format!("won-{task}");
        let claim = Self::claim(Timestamp::now().as_micros());
        let lease = self.client.acquire(&key, &claim).await.expect("a Redis that answers").expect("free");
        let end = Ending::of(RunOutcome::Succeeded, 100);
        lease.release(&end).await.expect("a Redis that answers");
    }

    /// A look, a swap that sets the lock, and one that deletes it: what a claim and a release send.
    async fn bare_win(&self, task: usize) {
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

    async fn rslock_wins(&self, task: usize) {
        let lock = self.rslock.lock(format!("{}:rslock-{task}", self.namespace).as_bytes(), TTL).await;
        self.rslock.unlock(&lock.expect("free")).await;
    }

    /// The server's own time for each of a claim's steps.
    async fn report_server_time(&self) {
        const CALLS: u32 = 1000;
        self.decide_a_tick(1).await;
        println!("\nserver time per call (INFO commandstats)");
        self.reset_stats().await;
        for _ in 0..CALLS {
            self.lose(0).await;
        }
        println!("  losing    {:6.1} µs", self.server_micros(&["get", "time"]).await / f64::from(CALLS));

        let mut leases = Vec::new();
        self.win(0).await;
        self.reset_stats().await;
        for key in 0..CALLS {
            let claim = Self::claim(Timestamp::now().as_micros());
            let won = self.client.acquire(&format!("timed-{key}"), &claim).await;
            leases.push(won.expect("a Redis that answers").expect("free"));
        }
        println!("  winning   {:6.1} µs", self.server_micros(&["evalsha"]).await / f64::from(CALLS));
        self.reset_stats().await;
        for lease in leases {
            let end = Ending::of(RunOutcome::Succeeded, 100);
            lease.release(&end).await.expect("a Redis that answers");
        }
        println!("  releasing {:6.1} µs", self.server_micros(&["evalsha"]).await / f64::from(CALLS));
    }

    /// The server's processor time for one tick of a job that ten servers have, each with its own connection.
    async fn report_tick_of_ten(&self, url: &str) {
        const JOBS: u32 = 100;
        const SECONDS: u32 = 10;
        let runs = Arc::new(AtomicU32::new(0));
        let mut servers = Vec::new();
        for _ in 0..10 {
            let store = RedisStore::open(url, Some(&self.namespace)).expect("a Redis URL");
            let mut server = jobs::builder().without_annotated().store(store);
            for number in 0..JOBS {
                let runs = runs.clone();
                let job = jobs::Job::builder(format!("tick-{number}")).every("1s").run(move |_| {
                    runs.fetch_add(1, Ordering::Relaxed);
                    std::future::ready(())
                });
                server = server.job(job.build().expect("a schedule"));
            }
            servers.push(server.start_all().await.expect("it starts"));
        }
        tokio::time::sleep(Duration::from_secs(3)).await;
        let (before, ran_before) = (self.processor_micros().await, runs.load(Ordering::Relaxed));
        tokio::time::sleep(Duration::from_secs(SECONDS.into())).await;
        let micros = self.processor_micros().await - before;
        let ticks = runs.load(Ordering::Relaxed) - ran_before;
        assert!(ticks.abs_diff(JOBS * SECONDS) <= JOBS, "{ticks} runs of {JOBS} jobs in {SECONDS} s");
        println!("\nserver's processor time per tick of ten servers: {:.0} µs", micros / f64::from(ticks));
        for server in servers {
            server.shutdown().await;
        }
    }

    async fn processor_micros(&self) -> f64 {
        let info: String =
            redis::cmd("INFO").arg("cpu").query_async(&mut self.bare.clone()).await.expect("INFO");
        let seconds = ["used_cpu_user:", "used_cpu_sys:"].map(|name| {
            let figure = info.lines().find_map(|line| line.strip_prefix(name));
            figure.and_then(|figure| figure.trim().parse::<f64>().ok()).expect("a figure")
        });
        seconds.iter().sum::<f64>() * 1e6
    }

    async fn reset_stats(&self) {
        let reset = redis::cmd("CONFIG").arg("RESETSTAT").exec_async(&mut self.bare.clone()).await;
        reset.expect("a Redis that may be configured");
    }

    /// What these commands have cost the server. Those inside of a script count in the script's own time.
    async fn server_micros(&self, commands: &[&str]) -> f64 {
        let stats: String =
            redis::cmd("INFO").arg("commandstats").query_async(&mut self.bare.clone()).await.expect("INFO");
        let lines = stats.lines().filter_map(|line| line.strip_prefix("cmdstat_")?.split_once(':'));
        let micros = lines.filter(|(name, _)| commands.contains(name)).map(|(_, figures)| {
            let usec = figures.split(',').find_map(|figure| figure.strip_prefix("usec="));
            usec.and_then(|usec| usec.parse::<f64>().ok()).expect("a figure")
        });
        micros.sum()
    }
}
