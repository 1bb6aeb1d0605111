//! The jobs and locks of every worker, and the rules by which they are checked.

use std::collections::BTreeMap;
use std::time::Duration;

use jobs::schedule::{Missed, OnLost, Overlap};
use jobs::testing::check::KeyRules;
use jobs::{Job, Run};

use super::clock::Random;
use super::effects;
use super::history::Held;
use super::resource::{self, Comparing};

pub const JOBS: usize = 64;
pub const MUTEXES: usize = 2;
pub const MUTEX_TTL: Duration = Duration::from_secs(2);
pub const SEMAPHORE: &str = "semaphore";
pub const PERMITS: u32 = 3;
pub const LEADER: &str = "leader";
pub const ONCE: &str = "once-";

/// A job with one policy out of eight.
#[derive(Clone, Debug)]
pub struct PlannedJob {
    pub key: String,
    policy: Policy,
    ttl: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Policy {
    Default,
    TakenOver,
    Queued,
    LongerThanItsInterval,
    Retried,
    MissedRunsOnce,
    TimesOut,
    ContinuesWhenLost,
}

const POLICIES: [(&str, Policy); 8] = [
    ("default", Policy::Default),
    ("taken-over", Policy::TakenOver),
    ("queued", Policy::Queued),
    ("long", Policy::LongerThanItsInterval),
    ("retried", Policy::Retried),
    ("missed", Policy::MissedRunsOnce),
    ("times-out", Policy::TimesOut),
    ("continues", Policy::ContinuesWhenLost),
];

const TAKEOVERS: u32 = 2;

pub fn jobs() -> Vec<PlannedJob> {
    let plan = |number: usize| {
        let (name, policy) = POLICIES[number % POLICIES.len()];
        let ttl = Duration::from_millis([2000, 2500, 3000][number % 3]);
        PlannedJob { key: format!("{name}-{}", number / POLICIES.len()), policy, ttl }
    };
    (0..JOBS).map(plan).collect()
}

/// The schedule of all jobs.
pub fn schedule(interval: Duration) -> String {
    format!("{}s", interval.as_secs())
}

pub fn mutex_key(number: usize) -> String {
    format!("mutex-{number}")
}

/// The rules of all keys but those of `once`, of which there are more and more.
pub fn rules() -> BTreeMap<String, KeyRules> {
    let mut rules: BTreeMap<_, _> = jobs().into_iter().map(|job| (job.key.clone(), job.rules())).collect();
    let lock = KeyRules::with_ttl(MUTEX_TTL);
    rules.extend((0..MUTEXES).map(mutex_key).map(|key| (key, lock.clone())));
    rules.insert(LEADER.to_owned(), lock.clone());
    rules.insert(SEMAPHORE.to_owned(), KeyRules { permits: PERMITS as usize, ..lock });
    rules
}

impl PlannedJob {
    /// Whether its runs end with an effect, where the store is a database.
    pub fn has_effects(&self) -> bool {
        self.policy == Policy::TakenOver
    }

    fn rules(&self) -> KeyRules {
        KeyRules {
            takeovers: if self.policy == Policy::TakenOver { TAKEOVERS } else { 0 },
            continues_when_lost: self.policy == Policy::ContinuesWhenLost,
            ..KeyRules::with_ttl(self.ttl)
        }
    }

    pub fn job(&self, interval: Duration) -> Job {
        let mut job = Job::builder(&self.key).every(schedule(interval)).ttl(self.ttl);
        // All ticks at the same instant are more than a busy machine can claim in time.
        if !matches!(self.policy, Policy::Default | Policy::TakenOver) {
            job = job.jitter(interval * 4 / 5);
        }
        let job = match self.policy {
            Policy::Default | Policy::LongerThanItsInterval => job,
            Policy::TakenOver => job.retry_on_crash(TAKEOVERS),
            Policy::Queued => job.overlap(Overlap::Queue),
            Policy::Retried => job.retries(2, "100ms"),
            Policy::MissedRunsOnce => job.missed(Missed::RunOnce),
            Policy::TimesOut => job.timeout("300ms"),
            Policy::ContinuesWhenLost => job.on_lost(OnLost::Continue),
        };
        let policy = self.policy;
        job.run(move |run| work(run, policy)).build().expect("a valid policy")
    }
}

/// A run: takes some steps, and writes at each.
async fn work(run: Run, policy: Policy) -> Result<(), &'static str> {
    let held = Held::begin_run(run.key(), run.fence(), run.tick(), (run.attempt(), run.retry()));
    let mut random = Random::new(run.fence().unsigned_abs() + u64::from(run.retry()));
    let (steps, longest) = match policy {
        Policy::Default | Policy::MissedRunsOnce | Policy::Retried => (2, 40),
        Policy::TakenOver | Policy::ContinuesWhenLost => (8, 120),
        Policy::Queued => (12, 160),
        Policy::LongerThanItsInterval => (24, 180),
        Policy::TimesOut => (3, 240),
    };
    for _ in 0..random.between(1, steps) {
        tokio::time::sleep(random.millis(1, longest)).await;
        held.step();
        resource::write(&held.0, Comparing::Fences).await;
    }
    if policy == Policy::TakenOver {
        effects::commit(&run).await.map_err(|_| "the effect may not be committed")?;
    }
    if policy == Policy::Retried && random.once_in(3) { Err("fails at times") } else { Ok(()) }
}
