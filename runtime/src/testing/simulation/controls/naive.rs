//! The lock that many services use: set if absent, run, delete. The same simulation shows what it breaks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::Control;
use crate::Timestamp;
use crate::store::memory::MemoryStore;
use crate::store::{SharedLock, Store};
use crate::testing::check::{Fault, LeaseRef, Observed};
use crate::testing::simulation::plan::{JobPlan, Plan};
use crate::testing::simulation::recorder::{LeaseUse, Recorder, UsedLease};
use crate::testing::{SimulatedProcess, TestClock};
use crate::util::clock::Clock;
use crate::util::random::seeded::SeededRandom;

/// One server that schedules by its own clock.
#[derive(Clone)]
struct NaiveServer {
    control: Control,
    id: Arc<str>,
    clock: TestClock,
    store: MemoryStore,
    recorder: Recorder,
    is_cut: Arc<AtomicBool>,
    fences: Arc<AtomicI64>,
}

/// Runs the plan's jobs with a plain lock. Servers are stopped and cut off for a while.
pub(in crate::testing::simulation) async fn run(
    plan: &Plan,
    control: Control,
    clock: &TestClock,
    recorder: &Recorder,
) {
    let random = &mut SeededRandom::new(plan.seed, "naive");
    let store = MemoryStore::new(Arc::new(clock.clone()));
    let fences = Arc::<AtomicI64>::default();
    for number in 0..plan.servers.len() {
        let server = NaiveServer {
            control,
            id: format!("server-{number}").into(),
            clock: clock.off_by(i64::try_from(random.below(50)).unwrap_or_default()),
            store: store.clone(),
            recorder: recorder.clone(),
            is_cut: Arc::default(),
            fences: fences.clone(),
        };
        recorder.server_started(&server.id, 0, None);
        let process = SimulatedProcess::on_current_runtime();
        for job in &plan.jobs {
            drop(process.spawn(server.clone().schedule(job.clone(), plan.seed)));
        }
        drop(tokio::spawn(disturb(
            server,
            process,
            SeededRandom::new(plan.seed, &format!("faults {number}")),
        )));
    }
    sleep(plan.faults_for).await;
}

/// Stops the server, or cuts it off, from time to time.
async fn disturb(server: NaiveServer, process: Arc<SimulatedProcess>, mut random: SeededRandom) {
    loop {
        sleep(random.millis(1_000, 20_000)).await;
        let fault = random.pick(&[Fault::Stop, Fault::CutOff]);
        server.recorder.add(&server.id, Observed::FaultBegan(fault));
        match fault {
            Fault::Stop => process.stop(),
            _ => server.is_cut.store(true, Ordering::SeqCst),
        }
        sleep(random.millis(100, 20_000)).await;
        process.resume();
        server.is_cut.store(false, Ordering::SeqCst);
        server.recorder.add(&server.id, Observed::FaultEnded(fault));
    }
}

impl NaiveServer {
    async fn schedule(self, job: JobPlan, seed: u64) {
        let version = &job.versions[0];
        let schedule = crate::schedule::Schedule::parse(version.every, None).expect("a valid schedule");
        let mut random = SeededRandom::new(seed, &format!("{} {}", self.id, job.key));
        while let Some(tick) = schedule.next_after(self.clock.now()) {
            sleep(tick.since(self.clock.now())).await;
            let works = random.millis(1, 2 * u64::try_from(version.ttl.as_millis()).unwrap_or(1000));
            let works = if self.control == Control::PlainLock { Duration::from_millis(1) } else { works };
            self.run_tick(&job.key, version.ttl, tick, works).await;
        }
    }

    async fn run_tick(&self, key: &str, ttl: Duration, tick: Timestamp, works: Duration) {
        let fence = self.fences.fetch_add(1, Ordering::SeqCst) + 1;
        let token: Arc<str> = format!("{fence}").into();
        if self.is_cut() || !self.set_if_absent(key, &token, ttl).await {
            return;
        }
        let lease = UsedLease::begin(
            &self.recorder,
            &self.id,
            &LeaseUse { key, fence, tick: Some(tick), attempt: 1, retry: 0 },
        );
        let (ends, mut is_kept) = (Instant::now() + works, true);
        while Instant::now() < ends {
            sleep((ends - Instant::now()).min(ttl / 3)).await;
            lease.step();
            is_kept &= !self.is_cut();
            if is_kept {
                self.extend(key, &token, ttl).await;
            }
        }
        drop(lease);
        if !self.is_cut() {
            self.delete(key, &token).await;
        }
    }

    fn is_cut(&self) -> bool {
        self.is_cut.load(Ordering::SeqCst)
    }

    async fn holder(&self, key: &str) -> Option<Arc<str>> {
        self.store.look(key).await.ok().and_then(|look| look.lock).map(|lock| lock.token)
    }

    fn set(&self, key: &str, token: &Arc<str>, ttl: Duration) {
        let until = Some(self.recorder.store_time() + ttl);
        self.store.set_lock(key, Some(SharedLock { token: token.clone(), until }));
    }

    async fn set_if_absent(&self, key: &str, token: &Arc<str>, ttl: Duration) -> bool {
        let is_free = self.holder(key).await.is_none();
        if is_free {
            self.set(key, token, ttl);
        }
        is_free
    }

    async fn extend(&self, key: &str, token: &Arc<str>, ttl: Duration) {
        if self.holder(key).await.as_ref() == Some(token) {
            self.set(key, token, ttl);
        }
    }

    async fn delete(&self, key: &str, token: &Arc<str>) {
        let holder = self.holder(key).await;
        if holder.as_ref() == Some(token) {
            self.store.set_lock(key, None);
        } else if let Some(other) = holder.filter(|_| self.control == Control::BareDelete) {
            let fence = other.parse().unwrap_or_default();
            self.recorder.add(&self.id, Observed::Overwrote(LeaseRef { key: key.into(), fence }));
            self.store.set_lock(key, None);
        }
    }
}
