//! The users of locks in a simulation: one task on each server for each lock.

use std::time::Duration;

use tokio::time::sleep;

use super::super::plan::{LockKind, LockPlan};
use super::super::recorder::{LeaseUse, Recorder, UsedLease, VariantName};
use super::effects::PlannedEffect;
use crate::locks::{Guard, LockError, OnceOutcome};
use crate::util::probe::reached;
use crate::util::random::seeded::SeededRandom;
use crate::{Jobs, Run};

/// Uses a lock again and again, until the server shuts down.
pub(in crate::testing::simulation) async fn use_lock(
    jobs: Jobs,
    plan: LockPlan,
    recorder: Recorder,
    seed: u64,
) {
    let mut user = LockUser {
        random: SeededRandom::new(seed, &format!("{} {}", plan.key, jobs.server_id())),
        jobs,
        plan,
        recorder,
        seed,
    };
    loop {
        let pause = user.draw(user.plan.pause);
        sleep(pause).await;
        let used = match user.plan.kind {
            LockKind::Guard => user.hold_guard().await,
            LockKind::Run => user.run_under_lock().await,
            LockKind::Semaphore(permits) => user.hold_slot(permits).await,
            LockKind::Leader => user.lead().await,
            LockKind::Once => user.do_once().await,
        };
        match used {
            Err(LockError::ShutDown { .. }) => return,
            Err(error) => reached(format_args!("lock error: {}", VariantName(error))),
            Ok(()) => {}
        }
    }
}

struct LockUser {
    jobs: Jobs,
    plan: LockPlan,
    recorder: Recorder,
    seed: u64,
    random: SeededRandom,
}

impl LockUser {
    fn draw(&mut self, longest: Duration) -> Duration {
        let longest = u64::try_from(longest.as_millis()).unwrap_or(1);
        self.random.millis(1, longest.max(1))
    }

    /// The pauses of one use.
    fn pauses(&mut self) -> Vec<Duration> {
        let total = self.draw(self.plan.longest);
        let steps = u32::try_from(self.random.between(1, 3)).unwrap_or(1);
        (0..steps).map(|_| total / steps).collect()
    }

    fn begin(&self, fence: i64) -> UsedLease {
        let used = LeaseUse::of_lock(&self.plan.key, fence);
        UsedLease::begin(&self.recorder, self.jobs.server_id(), &used)
    }

    async fn hold_guard(&mut self) -> Result<(), LockError> {
        let lock = self.jobs.lock(&self.plan.key).ttl(self.plan.ttl);
        let wait = self.draw(Duration::from_secs(5));
        let guard = if self.random.percent(30) {
            lock.try_acquire().await?
        } else {
            Some(lock.wait(wait).acquire().await?)
        };
        let Some(guard) = guard else { return Ok(()) };
        self.use_guard(guard).await
    }

    async fn hold_slot(&mut self, permits: u32) -> Result<(), LockError> {
        let wait = self.draw(Duration::from_secs(5));
        let slots = self.jobs.semaphore(&self.plan.key, permits).ttl(self.plan.ttl).wait(wait);
        let guard = slots.acquire().await?;
        self.use_guard(guard).await
    }

    /// Works under a guard, as a careful caller does: it stops when the lock is lost.
    async fn use_guard(&mut self, guard: Guard) -> Result<(), LockError> {
        // The application may have been blocked since.
        if guard.is_lost() {
            return Err(LockError::lost(guard.key()));
        }
        let lease = self.begin(guard.fence());
        for pause in self.pauses() {
            tokio::select! {
                biased;
                () = guard.lost() => return Err(LockError::lost(guard.key())),
                () = sleep(pause) => {}
            }
            if guard.is_lost() {
                return Err(LockError::lost(guard.key()));
            }
            lease.step();
        }
        drop(lease);
        if self.random.percent(50) { guard.release().await } else { Ok(()) }
    }

    async fn run_under_lock(&mut self) -> Result<(), LockError> {
        let wait = self.draw(Duration::from_secs(5));
        let (pauses, recorder) = (self.pauses(), self.recorder.clone());
        let lock = self.jobs.lock(&self.plan.key).ttl(self.plan.ttl).wait(wait);
        lock.run(move |run| work(run, pauses, recorder)).await
    }

    async fn lead(&mut self) -> Result<(), LockError> {
        let candidate = self.jobs.leader(&self.plan.key).ttl(self.plan.ttl).campaign()?;
        let leadership = candidate.elected().await?;
        if leadership.is_lost() {
            return Ok(());
        }
        let lease = self.begin(leadership.fence());
        for pause in self.pauses() {
            tokio::select! {
                biased;
                () = leadership.lost() => return Ok(()),
                () = sleep(pause) => {}
            }
            if leadership.is_lost() {
                return Ok(());
            }
            lease.step();
        }
        drop((lease, leadership));
        if self.random.percent(50) { candidate.resign().await } else { Ok(()) }
    }

    async fn do_once(&mut self) -> Result<(), LockError> {
        let (pauses, recorder) = (self.pauses(), self.recorder.clone());
        let within = self.draw(Duration::from_secs(20)).max(Duration::from_secs(1));
        let fails = self.random.percent(30);
        let once = self.jobs.once(&self.plan.key).ttl(self.plan.ttl).within(within);
        let (seed, ttl, commits) = (self.seed, self.plan.ttl, self.plan.commits);
        let done = once.run(move |run| async move {
            work(run.clone(), pauses, recorder.clone()).await;
            if commits {
                let effect = PlannedEffect::draw(seed, &run, ttl);
                effect.commit(&run, &recorder).await.map_err(|_| "its effect is not committed")?;
            }
            if fails { Err("the simulation lets it fail") } else { Ok(()) }
        });
        match done.await {
            Ok(OnceOutcome::Ran(())) => reached(format_args!("once: ran")),
            Ok(OnceOutcome::AlreadyDone(_)) => reached(format_args!("once: already done")),
            Ok(OnceOutcome::InProgress(_)) => reached(format_args!("once: in progress")),
            Err(crate::locks::OnceError::Lock(error)) => return Err(error),
            Err(_) => reached(format_args!("once: failed")),
        }
        Ok(())
    }
}

async fn work(run: Run, pauses: Vec<Duration>, recorder: Recorder) {
    let lease = UsedLease::begin(&recorder, run.server(), &LeaseUse::of_lock(run.key(), run.fence()));
    for pause in pauses {
        sleep(pause).await;
        lease.step();
    }
}
