//! One run: a store, a fleet, faults from a seed, a quiet tail, and the verdict.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jobs::Timestamp;
use jobs::history::{RunOutcome, Skip};
use jobs::schedule::Schedule;
use jobs::testing::check::{Fault, HELD, KeyRules, LeaseRef, Observation, Observed, Trace, Verdict, check};

use super::deployment::{Deployment, Kind};
use super::fleet::Fleet;
use super::history::{self, History};
use super::nemesis::Nemesis;
use super::operator::{Break, Operator};
use super::report::Report;
use super::{clock, effects, faults, plan, swaps};

/// How late a server may be on a busy machine, where it matters that something happens at all.
const SLACK: Duration = Duration::from_millis(1500);

/// Long enough for the longest ttl, twice the slack, and some ticks.
const TAIL: Duration = Duration::from_secs(11);

/// Runs a fleet on a store for so many ticks under faults, and returns the report. The histories stay in the folder.
pub fn run(kind: Kind, seed: u64, ticks: u64, folder: &Path) -> Report {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let history = Arc::new(History::create(folder, "harness"));
    let is_running = Arc::new(());
    let watch = |watch: fn(&History, &dyn Fn() -> bool)| {
        let (history, running) = (history.clone(), Arc::downgrade(&is_running));
        std::thread::spawn(move || watch(&history, &|| running.strong_count() > 0))
    };
    let watches = [
        watch(|history, condition| history.watch_load(condition)),
        watch(|history, condition| history.watch_queue(condition)),
    ];

    let mut deployment = Deployment::start(kind);
    let probe = runtime.spawn(probe(deployment.url(), history.clone()));
    let bank = effects::bank(&deployment.url());
    if let Some(bank) = &bank {
        runtime.block_on(effects::set_up(bank)).expect("a table for effects");
    }
    let operator = Operator::connect(&deployment.url(), history.clone(), &runtime);
    let mut fleet = Fleet::start(folder, history.clone(), &deployment, &runtime);
    // Before a job is registered, its ticks cannot be missed.
    operator.wait_until_registered();
    let begun = clock::wall();
    let mut nemesis = Nemesis::new(&mut fleet, &mut deployment, &operator, seed);
    nemesis.rage(kind.interval() * u32::try_from(ticks.div_ceil(plan::JOBS as u64)).expect("a time"));
    nemesis.heal();
    let strikes = nemesis.strikes.iter().map(|(strike, times)| (format!("{strike:?}"), *times)).collect();
    history.note_about("", Observed::Healed);
    std::thread::sleep(TAIL);

    let mut facts = Facts { operator: &operator, observations: Vec::new() };
    facts.add_due(kind.interval(), begun);
    facts.add_held(&fleet);
    if let Some(bank) = &bank {
        facts.add_ends();
        facts.observations.extend(runtime.block_on(effects::committed(bank)).expect("the effects"));
    }
    history.note_about("", Observed::Finished);
    facts.add_records();
    facts.add_breaks(folder);
    if deployment.failed_over_by_itself() {
        facts.add(0, Observed::FaultBegan(Fault::StoreLosesWrites));
    }
    history::write_all(folder, "facts", &facts.observations);
    fleet.shut_down();
    operator.leave();
    probe.abort();
    drop((runtime, is_running));
    for watch in watches {
        watch.join().expect("no panic");
    }
    let trace = trace(folder);
    Report::new(strikes, &trace, check(&trace))
}

/// Joins all histories of a folder.
fn trace(folder: &Path) -> Trace {
    let mut observations = history::read_all(folder);
    faults::share_overloads(&mut observations);
    let end = observations.iter().find(|observation| observation.what == Observed::Finished);
    let end = end.map_or(u64::MAX, |finished| finished.at);
    observations.extend(swaps::overwritten(folder));
    // What happens while the fleet shuts down is not part of it.
    observations.retain(|observation| observation.at <= end);
    observations.sort_by_key(|observation| observation.at);
    let mut keys = plan::rules();
    for observation in &observations {
        // When an effect was committed is not known: its lease may have begun after the end.
        if let Observed::Began { lease, .. } | Observed::Committed { lease, .. } = &observation.what {
            keys.entry(lease.key.to_string()).or_insert_with(|| KeyRules::with_ttl(plan::MUTEX_TTL));
        }
    }
    Trace { keys, observations, slack: SLACK }
}

/// What the harness knows itself, and from the store.
struct Facts<'a> {
    operator: &'a Operator,
    observations: Vec<Observation>,
}

impl Facts<'_> {
    fn add(&mut self, at: u64, what: Observed) {
        self.observations.push(Observation { at, server: "".into(), what });
    }

    /// The ticks of all jobs, from those that all servers have seen up to those that must be decided by now.
    fn add_due(&mut self, interval: Duration, begun: Timestamp) {
        let schedule = Schedule::parse(&plan::schedule(interval), None).expect("a schedule");
        let decided = clock::wall() - interval * 3;
        let ticks = std::iter::successors(schedule.next_after(begun + Duration::from_secs(1)), |tick| {
            schedule.next_after(*tick)
        });
        for tick in ticks.take_while(|tick| *tick < decided) {
            for job in plan::jobs() {
                let due = Observed::Due { key: job.key.into(), tick, servers: None };
                self.add(clock::steady_at(tick), due);
            }
        }
    }

    /// After the tail no lease of a server that ended before it is valid.
    fn add_held(&mut self, fleet: &Fleet) {
        let at = clock::steady();
        for held in self.operator.locks() {
            let Some(server) = held.holder.server else { continue };
            let serves = fleet.places.iter().any(|place| server.starts_with(&format!("{}-", place.name)));
            if !serves {
                let lease = LeaseRef { key: held.key.into(), fence: held.fence.unwrap_or_default() };
                self.add(at, Observed::HeldAtEnd(lease));
            }
        }
    }

    fn add_records(&mut self) {
        for (key, history) in self.operator.histories() {
            let key: Arc<str> = key.into();
            let skips = history.skips.iter().map(|skip| {
                (
                    skip.tick,
                    if skip.reason == Skip::Held { HELD.into() } else { format!("{:?}", skip.reason) },
                )
            });
            let runs = history
                .runs
                .iter()
                .filter_map(|run| Some((run.tick?, format!("recorded as {}", run.outcome))));
            let explained: Vec<_> = skips.chain(runs).collect();
            for (tick, why) in explained {
                let (first, until) = (tick, tick + Duration::from_micros(1));
                self.add(0, Observed::Explained { key: key.clone(), first, until, why: why.into() });
            }
        }
    }

    /// What the records of runs say about their effects.
    fn add_ends(&mut self) {
        let at = clock::steady();
        let keys: Vec<_> =
            plan::jobs().into_iter().filter(plan::PlannedJob::has_effects).map(|job| job.key).collect();
        for (key, history) in self.operator.histories().into_iter().filter(|(key, _)| keys.contains(key)) {
            for run in history.runs {
                let is_committed = matches!(run.outcome, RunOutcome::Committed | RunOutcome::Succeeded);
                let lease = LeaseRef { key: key.as_str().into(), fence: run.fence };
                self.add(at, Observed::EndRecorded { lease, is_committed });
            }
        }
    }

    /// A break is noted after the begin of every lease that it can have broken: the lease was won before, and a holder
    /// that had won begins its work within a ttl.
    fn add_breaks(&mut self, folder: &Path) {
        let leases: Vec<_> = history::read_all(folder)
            .into_iter()
            .filter_map(|observation| match observation.what {
                Observed::Began { lease, .. } => Some((lease, observation.at)),
                _ => None,
            })
            .collect();
        for Break { key, request, answer, broken } in self.operator.breaks() {
            let can_be_broken = |lease: &LeaseRef, began: u64| match &broken {
                Some(broken) => broken.contains(&lease.fence),
                None => (request..=answer + 3_000_000).contains(&began),
            };
            let of_key = leases.iter().filter(|(lease, _)| *lease.key == *key);
            let instants =
                of_key.filter(|(lease, began)| can_be_broken(lease, *began)).map(|(_, began)| *began);
            for at in instants.chain([request, answer]).collect::<Vec<_>>() {
                self.add(at, Observed::Broken(key.as_str().into()));
            }
        }
    }
}

/// Asks the store something small again and again, by a client of its own, and notes when it takes long.
async fn probe(url: String, history: Arc<History>) {
    const LONG: u64 = 120_000;
    // With slower ones a server that claims 64 jobs and uses some locks is never done.
    const LONGEST_ROUND_TRIP: u64 = 5000;
    const ROUND_TRIPS: u64 = 10;
    loop {
        let begun = clock::steady();
        let redis = async || -> Option<()> {
            let client = redis::Client::open(url.as_str()).ok()?;
            let mut client = client.get_multiplexed_async_connection().await.ok()?;
            redis::cmd("PING").query_async(&mut client).await.ok()
        };
        let postgres = async || -> Option<()> {
            let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.ok()?;
            tokio::spawn(connection);
            // As a server does: one request after the other.
            let begun = clock::steady();
            for _ in 0..ROUND_TRIPS {
                client.simple_query("SELECT 1").await.ok()?;
            }
            (clock::steady() - begun < ROUND_TRIPS * LONGEST_ROUND_TRIP).then_some(())
        };
        let answer = match url.split("://").next() {
            Some("redis") => redis().await,
            Some("postgres") => postgres().await,
            // Several servers, or none.
            _ => return,
        };
        if answer.is_none() || clock::steady() - begun > LONG {
            history.note_slow_store(begun);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// The folder of a run: `target/chaos/redis-17`.
pub fn folder(name: &str) -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the target folder").join("chaos");
    let folder = target.join(name);
    let _was_there = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder for the histories");
    folder
}

/// The verdict on a folder of an earlier run, from its histories alone.
pub fn check_again(folder: &Path) -> Verdict {
    check(&trace(folder))
}
