//! Many ticks that are due together.

use std::collections::HashMap;

use super::*;
use crate::schedule::Overlap;
use crate::tick::claim::turns::AT_FIRST;
use crate::util::random::seeded::seed_this_thread;

/// More than two groups, and one that is not full.
const JOBS: usize = 600;

fn jobs(run: impl Fn(Run) + Clone + Send + Sync + 'static) -> Vec<Job> {
    let job = |n| {
        let run = run.clone();
        let job = Job::builder(format!("job-{n}")).every("1h").ttl(Duration::from_secs(30));
        job.run(move |of| {
            run(of);
            std::future::ready(())
        })
        .build()
        .unwrap()
    };
    (0..JOBS).map(job).collect()
}

/// The number of starts of each job.
#[derive(Clone, Default)]
struct Starts(Arc<Mutex<HashMap<String, usize>>>);

impl Starts {
    fn jobs(&self) -> Vec<Job> {
        let starts = self.0.clone();
        jobs(move |run| *starts.lock().unwrap().entry(run.key().to_owned()).or_default() += 1)
    }

    /// The number of jobs that started, and the largest number of starts of one job.
    fn seen(&self) -> (usize, usize) {
        let starts = self.0.lock().unwrap();
        (starts.len(), starts.values().copied().max().unwrap_or_default())
    }
}

/// A server whose application polls nothing while the process is stopped.
fn server_on(app: &Arc<SimulatedProcess>, name: &str, link: &Link, clock: Arc<TestClock>) -> Arc<Server> {
    let app = Spawner::Simulated(app.clone());
    Arc::new(Server::new(ServerConfig { app, ..setup(name, link, clock) }))
}

async fn histories(link: &Link) -> Vec<History> {
    let mut histories = Vec::new();
    for n in 0..JOBS {
        histories.push(link.history(&format!("job-{n}")).await);
    }
    histories
}

async fn each_starts_once(link: Link, clock: Arc<TestClock>) {
    let starts = Starts::default();
    for name in ["one", "other"] {
        schedule_all(&server(name, &link, clock.clone()), starts.jobs());
    }
    seconds(3700).await;
    assert_eq!(starts.seen(), (JOBS, 1));
    for history in histories(&link).await {
        let outcomes: Vec<_> = history.runs.iter().map(|run| run.outcome).collect();
        assert_eq!(outcomes, [RunOutcome::Succeeded]);
    }
}

#[tokio::test(start_paused = true)]
async fn each_of_many_jobs_due_together_starts_once() {
    let clock = TestClock::new();
    each_starts_once(Link::new(clock.clone()), clock).await;
}

#[tokio::test(start_paused = true)]
async fn each_of_many_jobs_due_together_starts_once_on_a_distant_store() {
    let clock = TestClock::new();
    each_starts_once(Link { latency: Duration::from_millis(20), ..Link::new(clock.clone()) }, clock).await;
}

/// What three servers need for one tick of all jobs.
struct Race {
    /// The writes with which they tried to win it.
    claims: usize,
    /// The time from the tick to the last start.
    lateness: Duration,
    /// The number of ticks that each server won, the smallest first.
    wins: Vec<usize>,
}

async fn race(latency: Duration, claims_at_first: usize) -> Race {
    seed_this_thread(7);
    let clock = TestClock::new();
    let link = Link { latency, ..Link::new(clock.clone()) };
    let starts = Starts::default();
    let latest = Arc::new(Mutex::new(Duration::ZERO));
    for name in ["one", "two", "three"] {
        let (noted, latest, now) = (starts.0.clone(), latest.clone(), clock.clone());
        let jobs = jobs(move |run| {
            *noted.lock().unwrap().entry(run.key().to_owned()).or_default() += 1;
            let late = now.now().since(run.tick().unwrap());
            let mut latest = latest.lock().unwrap();
            *latest = late.max(*latest);
        });
        let server = Server::new(setup(name, &link, clock.clone()));
        schedule_all(&Arc::new(Server { claims_at_first, ..server }), jobs);
    }
    seconds(3700).await;
    assert_eq!(starts.seen(), (JOBS, 1));
    let mut wins = HashMap::<String, usize>::new();
    for history in histories(&link).await {
        *wins.entry(history.runs[0].server.clone()).or_default() += 1;
    }
    let mut wins: Vec<_> = wins.into_values().collect();
    wins.sort_unstable();
    let lateness = *latest.lock().unwrap();
    Race { claims: link.tokens().len(), lateness, wins }
}

#[tokio::test(start_paused = true)]
async fn servers_find_most_of_many_ticks_decided_and_share_the_others() {
    let latency = Duration::from_millis(1);
    let Race { claims, wins, .. } = race(latency, AT_FIRST).await;
    assert!(claims < JOBS * 14 / 10, "{claims} claims of {JOBS} ticks");
    assert!(wins.len() == 3 && wins[0] > JOBS / 5, "{wins:?}");
    let Race { claims, .. } = race(latency, JOBS).await;
    assert_eq!(claims, 3 * JOBS, "without a limit");
}

#[tokio::test(start_paused = true)]
async fn distant_store_delays_the_last_of_many_ticks_by_a_tenth_of_a_second() {
    let latency = Duration::from_millis(20);
    let unlimited = race(latency, JOBS).await.lateness;
    let limited = race(latency, AT_FIRST).await.lateness;
    assert!(limited <= unlimited + Duration::from_millis(120), "{limited:?}, without a limit {unlimited:?}");
}

#[tokio::test(start_paused = true)]
async fn claims_that_wait_for_a_holder_delay_no_other_tick() {
    let clock = TestClock::new();
    let link = Link::new(clock.clone());
    let starts = Starts::default();
    let waiting = |n: usize| {
        let noted = starts.0.clone();
        let job = Job::builder(format!("waiting-{n}")).every("1h").overlap(Overlap::Queue).ttl("10m");
        job.run(move |run| {
            *noted.lock().unwrap().entry(run.key().to_owned()).or_default() += 1;
            seconds(3610)
        })
        .build()
        .unwrap()
    };
    let late = Arc::new(Mutex::new(Vec::new()));
    let (noted, now) = (late.clone(), clock.clone());
    let prompt = Job::builder("prompt").every("1h").run(move |run| {
        noted.lock().unwrap().push(now.now().since(run.tick().unwrap()));
        std::future::ready(())
    });
    let mut jobs: Vec<_> = (0..2 * AT_FIRST).map(waiting).collect();
    jobs.push(prompt.build().unwrap());
    schedule_all(&server("server", &link, clock), jobs);
    seconds(2 * 3600 + 5).await;
    assert_eq!(
        starts.seen(),
        (2 * AT_FIRST, 1),
        "the second tick of each waits for the end of the first run"
    );
    assert_eq!(*late.lock().unwrap(), [Duration::ZERO; 2]);
}

#[tokio::test(start_paused = true)]
async fn many_jobs_due_together_respect_max_concurrent() {
    let clock = TestClock::new();
    let link = Link::new(clock.clone());
    let server = server_with("server", &link, clock, Some(7));
    let (starts, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (noted, seen, places) = (starts.clone(), most.clone(), server.clone());
    let jobs = jobs(move |_| {
        noted.fetch_add(1, Ordering::SeqCst);
        let free = places.permits.as_ref().unwrap().available_permits();
        seen.fetch_max(7 - free, Ordering::SeqCst);
    });
    schedule_all(&server, jobs);
    seconds(3700).await;
    assert_eq!((starts.load(Ordering::SeqCst), most.load(Ordering::SeqCst)), (JOBS, 7));
}

#[tokio::test(start_paused = true)]
async fn many_jobs_are_claimed_only_after_the_application_is_no_longer_blocked() {
    let clock = TestClock::new();
    let link = Link::new(clock.clone());
    let app = SimulatedProcess::on_current_runtime();
    let server = server_on(&app, "server", &link, clock);
    let starts = Starts::default();
    schedule_all(&server, starts.jobs());
    seconds(1800).await;
    app.stop();
    seconds(1800 + 300).await;
    assert_eq!(starts.seen(), (0, 0));
    assert!(histories(&link).await.iter().all(|history| history.current.is_none()), "no key is held");
    app.resume();
    seconds(3600).await;
    assert_eq!(starts.seen(), (JOBS, 1), "the next tick of each");
}

#[tokio::test(start_paused = true)]
async fn leases_of_many_runs_are_kept_while_they_block_the_application() {
    let clock = TestClock::new();
    let link = Link::new(clock.clone());
    let app = SimulatedProcess::on_current_runtime();
    let server = server_on(&app, "server", &link, clock.clone());
    let starts = Starts::default();
    let noted = starts.0.clone();
    let job = |n| {
        let noted = noted.clone();
        let job = Job::builder(format!("job-{n}")).every("1h").ttl(Duration::from_secs(30));
        job.run(move |run| {
            *noted.lock().unwrap().entry(run.key().to_owned()).or_default() += 1;
            seconds(60)
        })
        .build()
        .unwrap()
    };
    schedule_all(&server, (0..JOBS).map(job).collect());
    seconds(3601).await;
    assert_eq!(starts.seen(), (JOBS, 1));
    app.stop();
    seconds(300).await;
    let held = |history: &History| history.current.as_ref().is_some_and(|run| run.until > clock.now());
    assert!(histories(&link).await.iter().all(held), "ten times their ttl later");
    app.resume();
    seconds(1).await;
    for history in histories(&link).await {
        assert_eq!(history.runs.iter().map(|run| run.outcome).collect::<Vec<_>>(), [RunOutcome::Succeeded]);
    }
}

#[tokio::test(start_paused = true)]
async fn many_ticks_that_other_servers_won_are_decided_while_the_application_is_blocked() {
    let clock = TestClock::new();
    let link = Link::new(clock.clone());
    let app = SimulatedProcess::on_current_runtime();
    app.stop();
    let blocked = server_on(&app, "blocked", &link, clock.clone());
    let starts = Starts::default();
    schedule_all(&server("first", &link, clock), starts.jobs());
    schedule_all(&blocked, starts.jobs());
    seconds(3700).await;
    assert_eq!(starts.seen(), (JOBS, 1), "the first has won them all");
    assert!(blocked.tracked.is_empty(), "{} ticks wait", blocked.tracked.len());
}

#[tokio::test(start_paused = true)]
async fn panic_in_one_claim_ends_the_scheduler_but_not_runs_in_progress() {
    let clock = TestClock::new();
    let link = Link::new(clock.clone());
    let server = server("server", &link, clock);
    let starts = Starts::default();
    let mut jobs = starts.jobs();
    // In the middle of the batch.
    seed_this_thread(7);
    jobs.push(Job::builder("defect").every("1h").run(|_| std::future::ready(())).build().unwrap());
    schedule_all(&server, jobs);
    seconds(3700).await;
    assert!(server.failed.is_raised(), "loudly");
    let (started, times) = starts.seen();
    assert!(started > JOBS / 10 && started < JOBS && times == 1, "{started} jobs started {times} times");
    let ended = histories(&link).await.iter().filter(|history| history.runs.len() == 1).count();
    assert_eq!(ended, started, "all were watched, released and recorded");
}
