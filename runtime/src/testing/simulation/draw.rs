//! Draws plans from seeds.

use std::time::Duration;

use super::plan::{
    FaultAction, JobPlan, JobVersion, LockKind, LockPlan, OperatorCall, Plan, PlannedFault, ServerPlan,
    StoreLosses,
};
use singleton_jobs_policy::timing::margin;

use crate::testing::network::{KillPoint, MessageFaults};
use crate::util::random::seeded::SeededRandom;

const SECOND: Duration = Duration::from_secs(1);

/// The kinds of faults. Each plan uses some of them, so that rare combinations are not drowned by frequent ones.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Kill,
    Stop,
    BlockApplication,
    CutOff,
    BadNetwork,
    ServerClock,
    Deploy,
    StoreOutage,
    StoreClockForward,
    ForeignLock,
    ForeignDeletion,
    Operator,
    Wipe,
    Failover,
    StoreClockBack,
}

const KINDS: [Kind; 12] = [
    Kind::Kill,
    Kind::Stop,
    Kind::BlockApplication,
    Kind::CutOff,
    Kind::BadNetwork,
    Kind::ServerClock,
    Kind::Deploy,
    Kind::StoreOutage,
    Kind::StoreClockForward,
    Kind::ForeignLock,
    Kind::ForeignDeletion,
    Kind::Operator,
];

const LOSSES: [Kind; 3] = [Kind::Wipe, Kind::Failover, Kind::StoreClockBack];

impl Plan {
    /// Draws the plan of a seed.
    pub fn draw(seed: u64, losses: StoreLosses) -> Self {
        let random = &mut SeededRandom::new(seed, "plan");
        let servers = random.between(2, 6);
        let jobs: Vec<_> =
            (0..random.between(1, 6).min(random.between(1, 6))).map(|n| draw_job(random, n)).collect();
        let locks: Vec<_> = (0..random.between(0, 3)).map(|n| draw_lock(random, n)).collect();
        let lacks = |random: &mut SeededRandom| {
            (jobs.len() > 1 && random.percent(15)).then(|| random.index(jobs.len()))
        };
        let servers: Vec<_> = (0..servers).map(|_| draw_server(random, lacks)).collect();
        let longest_ttl = jobs.iter().flat_map(|job| &job.versions).map(|version| version.ttl);
        let longest_ttl = longest_ttl.chain(locks.iter().map(|lock| lock.ttl)).max().unwrap_or(SECOND);
        let periods = jobs.iter().flat_map(|job| &job.versions).map(|version| period(version.every));
        let tail = 3 * longest_ttl + 3 * periods.max().unwrap_or(SECOND) + 5 * SECOND;
        let mut plan = Self {
            seed,
            losses,
            control: None,
            begins_after: random.millis(0, 60_000),
            store_drift: random.pick(&[0, 0, 0, 100, -100, 500, -500]),
            max_concurrent: random.percent(15).then(|| random.index(2) + 1),
            shutdown_grace: random.pick(&[1, 2, 5, 25]) * SECOND,
            servers,
            jobs,
            locks,
            faults: Vec::new(),
            faults_for: random.millis(20_000, 90_000),
            tail,
        };
        draw_faults(random, &mut plan);
        draw_effects(&mut plan);
        let blocks = |fault: &PlannedFault| matches!(fault.action, FaultAction::BlockApplication { .. });
        if plan.faults.iter().any(blocks) {
            // A run that is blocked for longer than its lease would outlive it, as documented.
            plan.jobs
                .iter_mut()
                .flat_map(|job| &mut job.versions)
                .for_each(|version| version.keep_alive = true);
        }
        plan
    }
}

fn period(every: &str) -> Duration {
    let seconds = every.strip_suffix('s').and_then(|seconds| seconds.parse().ok());
    Duration::from_secs(seconds.unwrap_or(60))
}

fn draw_server(random: &mut SeededRandom, lacks: impl Fn(&mut SeededRandom) -> Option<usize>) -> ServerPlan {
    let clock_ahead = match random.below(4) {
        0 | 1 => 0,
        2 => signed(random, 1_000),
        _ => signed(random, 600_000),
    };
    ServerPlan {
        clock_ahead,
        delay: Duration::from_millis(random.pick(&[0, 0, 1, 2, 5, 20])),
        lacks: lacks(random),
    }
}

fn signed(random: &mut SeededRandom, most: u64) -> i64 {
    let size = i64::try_from(random.between(0, most)).unwrap_or_default();
    if random.percent(50) { size } else { -size }
}

fn draw_job(random: &mut SeededRandom, number: u64) -> JobPlan {
    let first = draw_version(random);
    let versions = if random.percent(50) { vec![first.clone(), change(random, &first)] } else { vec![first] };
    JobPlan { key: format!("job-{number}"), versions, commits: false }
}

fn draw_version(random: &mut SeededRandom) -> JobVersion {
    let every =
        random.pick(&["1s", "2s", "3s", "5s", "5s", "7s", "10s", "10s", "20s", "30s", "60s", "* * * * *"]);
    let ttl = random.pick(&[1, 2, 3, 5, 10, 20]) * SECOND;
    let takeovers = if random.percent(35) { u32::try_from(random.between(1, 3)).unwrap_or(1) } else { 0 };
    let gap = u64::try_from(period(every).as_millis()).unwrap_or(1000);
    let keep_alive = !random.percent(8);
    let timeout = random.percent(20).then(|| random.millis(100, 8_000));
    let lasts = ttl.saturating_sub(margin(ttl));
    JobVersion {
        every,
        ttl,
        queues: random.percent(40),
        runs_missed: random.percent(35),
        takeovers,
        retries: if random.percent(30) { 2 } else { 0 },
        timeout: timeout.map(|timeout| if keep_alive { timeout } else { timeout.min(lasts) }),
        jitter: random.percent(20).then(|| random.millis(1, gap - 1)),
        grace: random.percent(25).then(|| random.millis(200, 15_000)),
        keep_alive,
        continues_when_lost: takeovers == 0 && random.percent(10),
        fails: random.pick(&[0, 0, 10, 50]),
        panics: random.pick(&[0, 0, 0, 20]),
    }
}

/// Changes a policy as a deploy does. What the checks know of a key stays: its ttl, takeovers and what a lost run does.
fn change(random: &mut SeededRandom, version: &JobVersion) -> JobVersion {
    let other = draw_version(random);
    let &JobVersion { ttl, takeovers, continues_when_lost, keep_alive, .. } = version;
    let timeout = other.timeout.filter(|_| keep_alive);
    let jitter = other.jitter;
    if random.percent(50) {
        // Only the schedule.
        return JobVersion { every: other.every, jitter, ..version.clone() };
    }
    JobVersion { ttl, takeovers, timeout, keep_alive, continues_when_lost, ..other }
}

fn draw_lock(random: &mut SeededRandom, number: u64) -> LockPlan {
    let permits = u32::try_from(random.between(1, 3)).unwrap_or(1);
    LockPlan {
        key: format!("lock-{number}"),
        kind: random.pick(&[
            LockKind::Guard,
            LockKind::Run,
            LockKind::Semaphore(permits),
            LockKind::Leader,
            LockKind::Once,
        ]),
        ttl: random.pick(&[1, 2, 5, 10]) * SECOND,
        longest: Duration::from_millis(random.pick(&[100, 1_000, 5_000, 20_000])),
        pause: Duration::from_millis(random.pick(&[2_000, 10_000, 20_000])),
        commits: false,
    }
}

fn draw_faults(random: &mut SeededRandom, plan: &mut Plan) {
    let mut kinds: Vec<_> = KINDS.into_iter().filter(|_| random.percent(35)).collect();
    if plan.losses == StoreLosses::Lossy {
        kinds.extend(LOSSES.into_iter().filter(|_| random.percent(60)));
    }
    if kinds.is_empty() {
        return;
    }
    let faults_for = u64::try_from(plan.faults_for.as_millis()).unwrap_or(1);
    for _ in 0..random.between(1, 14) {
        let kind = random.pick(&kinds);
        let at = random.millis(0, faults_for);
        let action = draw_action(random, kind, plan);
        plan.faults.push(PlannedFault { at, action });
    }
    plan.faults.sort_by_key(|fault| fault.at);
}

/// Lets some jobs and locks commit effects, by random numbers of their own: the rest of a plan does not depend on them.
fn draw_effects(plan: &mut Plan) {
    let random = &mut SeededRandom::new(plan.seed, "effects");
    let has_effects = random.percent(60);
    for job in &mut plan.jobs {
        job.commits = has_effects && random.percent(60);
    }
    for lock in &mut plan.locks {
        lock.commits = has_effects && lock.kind == LockKind::Once && random.percent(60);
    }
}

/// What faults can be drawn for.
pub(in crate::testing) struct FaultTargets {
    pub(in crate::testing) servers: usize,
    pub(in crate::testing) ttl: Duration,
}

/// Draws a fault of a server or its connection, which every store can have.
pub(in crate::testing) fn draw_server_fault(
    random: &mut SeededRandom,
    targets: &FaultTargets,
) -> PlannedFault {
    let kind = random.pick(&KINDS[..8]);
    let action = draw_server_action(random, kind, targets);
    PlannedFault { at: Duration::ZERO, action: action.unwrap_or(FaultAction::StoreOutage { lasts: SECOND }) }
}

fn draw_server_action(random: &mut SeededRandom, kind: Kind, targets: &FaultTargets) -> Option<FaultAction> {
    let server = random.index(targets.servers);
    // From a blink to three times the lease.
    let ttl = u64::try_from(targets.ttl.as_millis()).unwrap_or(1000);
    let lasts = random.millis(50, 3 * ttl);
    Some(match kind {
        Kind::Kill => FaultAction::Kill {
            server,
            point: random.pick(&[None, None, Some(KillPoint::Sent), Some(KillPoint::Applied)]),
            back_after: random.millis(0, 20_000),
        },
        Kind::Stop => FaultAction::Stop { server, lasts },
        Kind::BlockApplication => FaultAction::BlockApplication { server, lasts },
        Kind::CutOff => FaultAction::CutOff { server, lasts },
        Kind::BadNetwork => {
            let messages = draw_messages(random, targets.ttl);
            FaultAction::BadNetwork { server, messages, lasts: random.millis(500, 30_000) }
        }
        Kind::ServerClock => FaultAction::ServerClock {
            server,
            step: random.pick(&[100, 1_000, 10_000, 3_600_000]) * if random.percent(50) { 1 } else { -1 },
            drift: random.pick(&[0, 0, 200, -200, 5_000]),
        },
        Kind::Deploy => FaultAction::Deploy { server, version: random.index(2) },
        Kind::StoreOutage => FaultAction::StoreOutage { lasts },
        _ => return None,
    })
}

fn draw_action(random: &mut SeededRandom, kind: Kind, plan: &Plan) -> FaultAction {
    let server = random.index(plan.servers.len());
    let job = random.index(plan.jobs.len());
    let key = random.index(plan.jobs.len() + plan.locks.len());
    let ttl = plan.jobs[job].versions[0].ttl;
    let targets = FaultTargets { servers: plan.servers.len(), ttl };
    if let Some(action) = draw_server_action(random, kind, &targets) {
        return action;
    }
    let lasts = random.millis(50, 3 * u64::try_from(ttl.as_millis()).unwrap_or(1000));
    match kind {
        Kind::StoreClockForward => {
            FaultAction::StoreClock { step: random.pick(&[10, 300, 1_000, 5_000, 30_000]) }
        }
        Kind::StoreClockBack => FaultAction::StoreClock { step: -random.pick(&[10, 300, 1_000, 5_000]) },
        Kind::ForeignLock => FaultAction::ForeignLock { key, expires: random.percent(50), lasts },
        Kind::ForeignDeletion => FaultAction::ForeignDeletion { key },
        Kind::Wipe => FaultAction::Wipe { key: random.percent(50).then_some(key) },
        Kind::Failover => FaultAction::Failover { loses: random.millis(0, 5_000) },
        _ => {
            let lasts = random.millis(100, 30_000);
            let calls = [
                OperatorCall::Pause { lasts },
                OperatorCall::Pause { lasts },
                OperatorCall::RunNow,
                OperatorCall::RunNow,
                OperatorCall::Cancel,
                OperatorCall::Break,
                OperatorCall::Reset,
                OperatorCall::Forget,
            ];
            let call = random.pick(&calls);
            let key = if call == OperatorCall::Break { key } else { job };
            FaultAction::Operator { server, key, call }
        }
    }
}

/// Faults of messages. Some delays are longer than the time in which a request is answered, and than a lease.
pub(super) fn draw_messages(random: &mut SeededRandom, ttl: Duration) -> MessageFaults {
    let longest = random.pick(&[ttl / 12, ttl / 5, ttl / 2, 2 * ttl]);
    MessageFaults {
        delay: Duration::from_millis(random.pick(&[1, 5, 30])),
        slow: random.pick(&[0, 5, 30, 80]),
        longest,
        requests_lost: random.pick(&[0, 0, 5, 30]),
        replies_lost: random.pick(&[0, 5, 30, 60]),
        reported: random.pick(&[0, 50, 100]),
        copied: random.pick(&[0, 10, 50]),
        copies_after: random.pick(&[ttl / 20, ttl, 3 * ttl]).min(20 * SECOND),
        not_replicated: random.pick(&[0, 0, 0, 20]),
    }
}
