//! The locks that every worker uses beside its jobs, until its server shuts down.

use std::time::Duration;

use jobs::locks::{LockError, OnceError};
use jobs::{Jobs, Run};
use tokio::time::sleep;

use super::clock::{self, Random};
use super::history::Held;
use super::plan::{LEADER, MUTEX_TTL, MUTEXES, ONCE, PERMITS, SEMAPHORE, mutex_key};
use super::resource::{self, Comparing};

/// How long a caller waits for a lock.
const WAIT: Duration = Duration::from_secs(1);

pub fn use_all(jobs: &Jobs) {
    let mut random = Random::new(clock::steady());
    for key in (0..MUTEXES).map(mutex_key) {
        tokio::spawn(use_mutex(jobs.clone(), key, Random::new(random.between(0, u64::MAX - 1))));
    }
    tokio::spawn(use_semaphore(jobs.clone(), Random::new(random.between(0, u64::MAX - 1))));
    tokio::spawn(lead(jobs.clone(), Random::new(random.between(0, u64::MAX - 1))));
    tokio::spawn(deliver(jobs.clone(), Random::new(random.between(0, u64::MAX - 1))));
}

/// Works under a lease for a few steps.
async fn hold(held: Held, steps: u64, comparing: Option<Comparing>) {
    for _ in 0..steps {
        sleep(Duration::from_millis(30)).await;
        held.step();
        if let Some(comparing) = comparing {
            resource::write(&held.0, comparing).await;
        }
    }
}

async fn use_mutex(jobs: Jobs, key: String, mut random: Random) {
    loop {
        let steps = random.between(1, 6);
        let work = |run: Run| hold(Held::begin(run.key(), run.fence()), steps, Some(Comparing::Fences));
        let held = jobs.lock(&key).ttl(MUTEX_TTL).wait(WAIT).run(work).await;
        if matches!(held, Err(LockError::ShutDown { .. })) {
            return;
        }
        sleep(random.millis(100, 900)).await;
    }
}

/// Slots have different fences at the same time, so their writes are not compared.
async fn use_semaphore(jobs: Jobs, mut random: Random) {
    loop {
        let steps = random.between(1, 20);
        let work = |run: Run| hold(Held::begin(run.key(), run.fence()), steps, None);
        let held = jobs.semaphore(SEMAPHORE, PERMITS).ttl(MUTEX_TTL).wait(WAIT).run(work).await;
        if matches!(held, Err(LockError::ShutDown { .. })) {
            return;
        }
        sleep(random.millis(100, 900)).await;
    }
}

async fn lead(jobs: Jobs, mut random: Random) {
    loop {
        let steps = random.between(5, 40);
        let led = jobs
            .leader(LEADER)
            .ttl(MUTEX_TTL)
            .lead(|leadership| hold(Held::begin(LEADER, leadership.fence()), steps, Some(Comparing::Fences)));
        if matches!(led.await, Err(LockError::ShutDown { .. })) {
            return;
        }
        sleep(random.millis(200, 1500)).await;
    }
}

/// Every two seconds there is something new to be done once.
async fn deliver(jobs: Jobs, mut random: Random) {
    loop {
        let key = format!("{ONCE}{}", clock::wall().as_micros() / 2_000_000);
        let done = jobs.once(key).within("60s").ttl(MUTEX_TTL).run(|run| async move {
            hold(Held::begin(run.key(), run.fence()), 3, Some(Comparing::Fences)).await;
            Ok::<_, std::fmt::Error>(())
        });
        if matches!(done.await, Err(OnceError::Lock(LockError::ShutDown { .. }))) {
            return;
        }
        sleep(random.millis(300, 1200)).await;
    }
}
