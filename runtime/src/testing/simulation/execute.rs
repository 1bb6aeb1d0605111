//! Executes a plan, in virtual time on one thread.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::controls::broken_store::BrokenStore;
use super::controls::{Control, naive};
use super::faults::Injector;
use super::observed_store::{Listeners, ObservedStore, observe_end};
use super::plan::{FaultAction, JobPlan, JobVersion, LockKind, Plan};
use super::recorder::Recorder;
use super::workload::effects::SimulatedDatabase;
use super::workload::lock_users::use_lock;
use super::workload::{NextStart, add_jobs};
use crate::Timestamp;
use crate::schedule::Schedule;
use crate::store::memory::MemoryStore;
use crate::testing::check::{KeyRules, Observed, Trace, Verdict, check};
use crate::testing::fleet::NOON;
use crate::testing::{Fleet, TestClock, TestServer};
use crate::util::clock::Clock;
use crate::util::planted::plant;
use crate::util::probe::counted;
use crate::util::random::seeded::{SeededRandom, use_on_this_thread};

/// The result of a simulation.
#[derive(Clone, Debug)]
pub struct Simulated {
    /// What happened.
    pub trace: Trace,
    /// The check of the trace.
    pub verdict: Verdict,
    /// How often each reply, event and outcome was reached.
    pub coverage: BTreeMap<String, u64>,
    /// The virtual time that passed.
    pub lasted: Duration,
}

/// Executes a plan. The same plan has the same result, byte for byte.
///
/// # Panics
///
/// Panics inside of a Tokio runtime: it runs on one of its own.
pub fn simulate(plan: &Plan) -> Simulated {
    counted::start();
    plant(match plan.control {
        Some(Control::Planted(bug)) => Some(bug),
        _ => None,
    });
    let seeded = use_on_this_thread(SeededRandom::new(plan.seed, "runtime"));
    let mut paused = tokio::runtime::Builder::new_current_thread();
    let runtime = paused.enable_time().start_paused(true).build().expect("a runtime without I/O");
    let (trace, lasted) = runtime.block_on(execute(plan));
    drop(runtime);
    plant(None);
    drop(seeded);
    let verdict = check(&trace);
    Simulated { trace, verdict, coverage: counted::finish(), lasted }
}

async fn execute(plan: &Plan) -> (Trace, Duration) {
    let begun = Instant::now();
    let clock = TestClock::starting_at(NOON + plan.begins_after);
    clock.set_drift(plan.store_drift);
    let recorder = Recorder::new(&clock, Trace { keys: rules(plan), ..Trace::default() });
    match plan.control {
        Some(control @ (Control::PlainLock | Control::BareDelete | Control::KeepAliveStops)) => {
            naive::run(plan, control, &clock, &recorder).await;
            return (recorder.finish(), begun.elapsed());
        }
        Some(Control::UnfencedWriter) => recorder.accept_stale_writes(),
        Some(Control::UncheckedCommit) => recorder.commit_under_any_lease(),
        _ => {}
    }
    let next = Arc::<NextStart>::default();
    let mut fleet = build_fleet(plan, &clock, &next, &recorder).await;
    watch_ticks(plan, &fleet.store, &clock, &recorder);

    let mut injector = injector(plan, &mut fleet, &next, &recorder);
    for number in 0..plan.servers.len() {
        injector.start(number, 0).await;
    }
    for fault in &plan.faults {
        injector.run_until(begun + fault.at).await;
        injector.inject(fault).await;
    }
    injector.run_until(begun + plan.faults_for).await;
    injector.heal().await;
    // Late copies of messages are faults, too.
    sleep(latest_copy(plan)).await;
    recorder.add_general(Observed::Healed);
    sleep(plan.tail).await;
    drop(injector);
    observe_end(&fleet.store, &recorder, &plan.keys()).await;
    (recorder.finish(), begun.elapsed())
}

async fn build_fleet(plan: &Plan, clock: &TestClock, next: &Arc<NextStart>, recorder: &Recorder) -> Fleet {
    let mut builder = Fleet::of(0).shutdown_grace(plan.shutdown_grace);
    if let Some(runs) = plan.max_concurrent {
        builder = builder.max_concurrent(runs);
    }
    builder = add_jobs(builder, plan.seed, &plan.jobs, next, recorder);
    builder.seed = plan.seed;
    let (recorder, broken) = (recorder.clone(), BrokenStore::of(plan.control));
    let listeners = Listeners::default();
    builder.observe_store = Some(Box::new(move |server, store| {
        let (store, server) = (store.clone(), server.into());
        Arc::new(ObservedStore {
            store,
            server,
            recorder: recorder.clone(),
            broken: broken.clone(),
            listeners: listeners.clone(),
        })
    }));
    builder.start_on(clock.clone()).await.expect("the jobs are valid")
}

fn injector<'a>(
    plan: &'a Plan,
    fleet: &'a mut Fleet,
    next: &Arc<NextStart>,
    recorder: &Recorder,
) -> Injector<'a> {
    let mut injector = Injector::new(fleet, recorder.clone());
    let lacks = |number: usize| {
        let lacks = plan.servers.get(number).and_then(|server| server.lacks);
        lacks.and_then(|job| plan.jobs.get(job)).map(|job| job.key.as_str())
    };
    let next = next.clone();
    injector.before_start = Box::new(move |number, version| next.set(version, lacks(number)));
    let (recorder, store) = (recorder.clone(), injector.fleet.store.clone());
    injector.after_start = Box::new(move |server, number, version| {
        let id: Arc<str> = server.server_id().into();
        recorder.connect(&id, SimulatedDatabase { link: server.link().clone(), store: store.clone() });
        recorder.server_started(&id, version, lacks(number));
        record_events(plan, server, &recorder);
        for lock in &plan.locks {
            server.spawn(use_lock(server.jobs().clone(), lock.clone(), recorder.clone(), plan.seed));
        }
    });
    injector.keys = plan.keys().into_iter().map(Arc::from).collect();
    injector.delays = plan.servers.iter().map(|server| server.delay).collect();
    injector.clocks_ahead = plan.servers.iter().map(|server| server.clock_ahead).collect();
    injector.takes_snapshots =
        plan.faults.iter().any(|fault| matches!(fault.action, FaultAction::Failover { .. }));
    injector
}

/// Records the events of a server.
fn record_events(plan: &Plan, server: &TestServer, recorder: &Recorder) {
    let (mut events, recorder) = (server.jobs().events(), recorder.clone());
    let id: Arc<str> = server.server_id().into();
    let is_lost_by_design = |job: &&JobPlan| job.versions.iter().any(|version| !version.keep_alive);
    let not_kept: Vec<_> = plan.jobs.iter().filter(is_lost_by_design).map(|job| job.key.clone()).collect();
    drop(tokio::spawn(async move {
        while let Some(event) = events.next().await {
            recorder.event(&id, &event, |key| !not_kept.iter().any(|other| other == key));
        }
    }));
}

/// Records the ticks of the schedule that the store has registered, when they are due by its clock, as long as a server claims
/// them. Ticks of a schedule that a deploy has replaced may run, and need not.
fn watch_ticks(plan: &Plan, store: &MemoryStore, clock: &TestClock, recorder: &Recorder) {
    for job in &plan.jobs {
        let every: BTreeSet<_> = job.versions.iter().map(|version| version.every).collect();
        for every in every {
            let schedule = Schedule::parse(every, None).expect("the simulation draws valid schedules");
            let has_it = |version: &JobVersion| version.every == every;
            let versions: Vec<_> = job.versions.iter().map(has_it).collect();
            let (store, clock, recorder) = (store.clone(), clock.clone(), recorder.clone());
            let key = Arc::<str>::from(&*job.key);
            drop(tokio::spawn(async move {
                let mut next = schedule.next_after(clock.now());
                let mut newest_due = None;
                while let Some(tick) = next {
                    wait_for(&clock, tick).await;
                    next = schedule.next_after(tick);
                    let Some(registered) = store.show(&key).state.registered.clone() else { continue };
                    if *registered.schedule == *schedule.as_str() {
                        let servers = recorder.claiming(&key, &versions);
                        if registered.at < tick && !servers.is_empty() {
                            let (key, servers) = (key.clone(), Some(servers));
                            recorder.add_general(Observed::Due { key, tick, servers });
                            newest_due = Some(tick);
                        }
                    } else if newest_due.take().is_some_and(|due| due >= registered.at) {
                        // A swap that replaces the schedule does so as of its look: a tick became due in between.
                        let (key, first, why) = (key.clone(), registered.at, "replaced".into());
                        recorder.add_general(Observed::Explained { key, first, until: tick, why });
                    }
                }
            }));
        }
    }
}

async fn wait_for(clock: &TestClock, time: Timestamp) {
    loop {
        let left = time.since(clock.now());
        if left.is_zero() {
            return;
        }
        // The clock may be set meanwhile.
        sleep(left.clamp(Duration::from_millis(1), Duration::from_millis(500))).await;
    }
}

fn rules(plan: &Plan) -> BTreeMap<String, KeyRules> {
    let jobs = plan.jobs.iter().map(|job| {
        let version = &job.versions[0];
        let rules = KeyRules {
            takeovers: version.takeovers,
            continues_when_lost: version.continues_when_lost,
            ..KeyRules::with_ttl(version.ttl)
        };
        (job.key.clone(), rules)
    });
    let locks = plan.locks.iter().map(|lock| {
        let permits = match lock.kind {
            LockKind::Semaphore(permits) => permits as usize,
            _ => 1,
        };
        (lock.key.clone(), KeyRules { permits, ..KeyRules::with_ttl(lock.ttl) })
    });
    jobs.chain(locks).collect()
}

fn latest_copy(plan: &Plan) -> Duration {
    let of_fault = |action: &FaultAction| match action {
        FaultAction::BadNetwork { messages, .. } => {
            messages.longest.max(messages.delay) + messages.copies_after
        }
        _ => Duration::ZERO,
    };
    plan.faults.iter().map(|fault| of_fault(&fault.action)).max().unwrap_or_default()
}
