//! The jobs of a simulation: what they do is decided by the seed, their key and their tick.

pub(super) mod effects;
pub(super) mod lock_users;
pub(super) mod operators;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::sleep;

use self::effects::PlannedEffect;
use super::plan::{JobPlan, JobVersion};
use super::recorder::{LeaseUse, Recorder, UsedLease};
use crate::schedule::{Missed, OnLost, Overlap};
use crate::testing::FleetBuilder;
use crate::util::lock;
use crate::util::random::seeded::SeededRandom;
use crate::{Job, Run};

/// What a server that is about to start will have.
#[derive(Default)]
pub(in crate::testing) struct NextStart {
    version: AtomicUsize,
    lacks: std::sync::Mutex<Option<String>>,
}

impl NextStart {
    pub(super) fn set(&self, version: usize, lacks: Option<&str>) {
        self.version.store(version, Ordering::SeqCst);
        *lock(&self.lacks) = lacks.map(str::to_owned);
    }
}

/// Adds the jobs of a plan to a fleet.
pub(super) fn add_jobs(
    mut fleet: FleetBuilder,
    seed: u64,
    jobs: &[JobPlan],
    next: &Arc<NextStart>,
    recorder: &Recorder,
) -> FleetBuilder {
    for plan in jobs {
        let (plan, next, recorder) = (plan.clone(), next.clone(), recorder.clone());
        fleet = fleet.job_if(move || {
            let is_lacking = lock(&next.lacks).as_deref() == Some(&*plan.key);
            let version = next.version.load(Ordering::SeqCst).min(plan.versions.len() - 1);
            (!is_lacking).then(|| build(seed, &plan, &plan.versions[version], &recorder))
        });
    }
    fleet
}

fn build(seed: u64, plan: &JobPlan, version: &JobVersion, recorder: &Recorder) -> Job {
    let mut job =
        Job::builder(&*plan.key).every(version.every).ttl(version.ttl).keep_alive(version.keep_alive);
    if version.queues {
        job = job.overlap(Overlap::Queue);
    }
    if version.runs_missed {
        job = job.missed(Missed::RunOnce);
    }
    if version.takeovers > 0 {
        job = job.retry_on_crash(version.takeovers);
    }
    if version.retries > 0 {
        job = job.retries(version.retries, Duration::from_millis(300));
    }
    if let Some(timeout) = version.timeout {
        job = job.timeout(timeout);
    }
    if let Some(jitter) = version.jitter {
        job = job.jitter(jitter);
    }
    if let Some(grace) = version.grace {
        job = job.grace(grace);
    }
    if version.continues_when_lost {
        job = job.on_lost(OnLost::Continue);
    }
    let (version, recorder, commits) = (version.clone(), recorder.clone(), plan.commits);
    let job = job.run(move |run| {
        let (version, recorder) = (version.clone(), recorder.clone());
        async move {
            let effect = commits.then(|| PlannedEffect::draw(seed, &run, version.ttl));
            work(seed, version, recorder, run, effect).await
        }
    });
    job.build().unwrap_or_else(|problem| panic!("the simulation draws valid jobs: {problem}"))
}

/// One call of a job's function.
async fn work(
    seed: u64,
    version: JobVersion,
    recorder: Recorder,
    run: Run,
    effect: Option<PlannedEffect>,
) -> Result<(), String> {
    let (key, tick, attempt, retry) = (run.key(), run.tick(), run.attempt(), run.retry());
    let used = LeaseUse { key, fence: run.fence(), tick, attempt, retry };
    let lease = UsedLease::begin(&recorder, run.server(), &used);
    let at = tick.map_or(run.fence(), crate::Timestamp::as_micros);
    let mut random = SeededRandom::new(seed, &format!("{key} {at} {attempt} {retry}"));
    for pause in draw_pauses(&mut random, version.ttl) {
        sleep(pause).await;
        lease.step();
    }
    if let Some(effect) = effect {
        effect.commit(&run, &recorder).await?;
        lease.step();
    }
    if random.percent(version.panics) {
        drop(lease);
        // Without a call of the panic hook.
        std::panic::resume_unwind(Box::new("the simulation lets this run panic"));
    }
    if random.percent(version.fails) { Err("the simulation lets this run fail".to_owned()) } else { Ok(()) }
}

/// The pauses of a run: most runs are short, some take longer than a lease.
fn draw_pauses(random: &mut SeededRandom, ttl: Duration) -> Vec<Duration> {
    let ttl = u64::try_from(ttl.as_millis()).unwrap_or(1000);
    let total = match random.below(10) {
        0 => 0,
        1..=5 => random.between(1, 200),
        6..=8 => random.between(200, ttl.max(201)),
        _ => random.between(ttl, 3 * ttl),
    };
    let steps = random.between(1, 4);
    (0..steps).map(|_| Duration::from_millis(total / steps)).collect()
}
