//! What ten thousand jobs cost: to start, to have, and when they all fire at once.
//!
//!     cargo bench -p singleton-jobs --bench ten_thousand_jobs
//!
//! Every figure stands beside that of bare Tokio doing the same in the same run, since machines differ and
//! are noisy. `IDLE_SECONDS` (20) sets how long the idle processor time is measured.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use jobs::history::RunOutcome;
use jobs::schedule::{Missed, Overlap};
use jobs::store::decide::{self, Decision};
use jobs::store::memory::MemoryStore;
use jobs::store::{
    Claim, ClaimDecision, ClaimPurpose, Ending, Lease, Look, REMEMBERED, RunDetails, Store, Swap, SwapReply,
    Swapped, TickClaim,
};
use jobs::{Job, Timestamp};

const JOBS: usize = 10_000;

/// One tick is a short time, and anything that happens beside it shows.
const ROUNDS: usize = 5;

#[tokio::main(worker_threads = 2)]
async fn main() {
    let idle = std::env::var("IDLE_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(20);
    let idle = Duration::from_secs(idle);

    let empty = processor_time_over(idle).await;
    let begun = std::time::Instant::now();
    let jobs = start("idle", "0 0 1 1 *", |_| ()).await;
    let started = begun.elapsed();
    tokio::time::sleep(Duration::from_secs(1)).await; // what the start left behind is not idling
    let with_jobs = processor_time_over(idle).await;
    jobs.shutdown().await;

    println!("start_all of {JOBS} jobs:              {started:.0?}");
    println!("processor time over {idle:?}, no jobs:   {empty:?}");
    println!("processor time over {idle:?}, {JOBS}:  {with_jobs:?}");

    println!("\nlateness when {JOBS} are due at once       median      99 %       max");
    let mut ratios = Vec::new();
    for round in 1..=ROUNDS {
        let tasks = task_lateness().await;
        let sleeping = bare_lateness(round, false).await;
        bare_lateness(round, true).await; // on the first every key is new to the store
        let claiming = bare_lateness(round, true).await;
        let ours = our_lateness(round).await;
        report("bare tasks that sleep and do nothing", &tasks);
        report("bare loop: sleep_until", &sleeping);
        report("bare loop: sleep_until, claim, release", &claiming);
        report("jobs", &ours);
        let times = |bare: &[Duration]| late_at(99, &ours).as_secs_f64() / late_at(99, bare).as_secs_f64();
        ratios.push([times(&sleeping), times(&claiming)]);
    }
    let [sleeping, claiming] = [0, 1].map(|bare| {
        let mut ratios: Vec<_> = ratios.iter().map(|ratios| ratios[bare]).collect();
        ratios.sort_by(f64::total_cmp);
        ratios[ROUNDS / 2]
    });
    println!(
        "99 % are at most {sleeping:.1} times as late as in the bare loop, {claiming:.1} times as in the one that claims, in the \
         median of {ROUNDS} rounds"
    );
}

async fn start(
    name: &str,
    every: &str,
    note: impl Fn(Timestamp) + Clone + Send + Sync + 'static,
) -> jobs::Jobs {
    let mut builder = jobs::builder().without_annotated().store(MemoryStore::named(name));
    for n in 0..JOBS {
        let note = note.clone();
        let job = Job::builder(format!("job-{n}")).every(every).run(move |run| {
            note(run.tick().expect("a tick"));
            std::future::ready(())
        });
        builder = builder.job(job.build().expect("a good schedule"));
    }
    builder.start_all().await.expect("the jobs start")
}

/// How late each job's body began, by the clock that the memory store has too, on the second tick: on the first
/// every key is new to the store.
async fn our_lateness(round: usize) -> Vec<Duration> {
    let late = Arc::new(Mutex::new(Vec::with_capacity(2 * JOBS)));
    let noted = late.clone();
    let jobs = start(&format!("round-{round}"), "2s", move |tick| {
        let now = Timestamp::now();
        noted.lock().unwrap().push(now.since(tick));
    })
    .await;
    while late.lock().unwrap().len() < 2 * JOBS {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    jobs.shutdown().await;
    sorted(late.lock().unwrap()[JOBS..2 * JOBS].to_vec())
}

/// The least there is: tasks on the application's runtime that sleep, each its own body, with no thread between them.
async fn task_lateness() -> Vec<Duration> {
    let at = tokio::time::Instant::now() + Duration::from_secs(1);
    let wall = Timestamp::now() + (at - tokio::time::Instant::now());
    let task = |_| {
        tokio::spawn(async move {
            tokio::time::sleep_until(at).await;
            Timestamp::now().since(wall)
        })
    };
    let tasks: Vec<_> = (0..JOBS).map(task).collect();
    let mut late = Vec::with_capacity(JOBS);
    for task in tasks {
        late.push(task.await.expect("no panic"));
    }
    sorted(late)
}

static KEPT: Mutex<Vec<MemoryStore>> = Mutex::new(Vec::new());

/// One task per job on a thread beside the application's, as the scheduler has it, and nothing else of it: each
/// sleeps, runs its body on the application's runtime, and, if told so, claims before and releases after.
async fn bare_lateness(round: usize, claiming: bool) -> Vec<Duration> {
    let app = tokio::runtime::Handle::current();
    let (send, late) = tokio::sync::oneshot::channel();
    let store = Arc::new(MemoryStore::named(&format!("bare-{round}")));
    KEPT.lock().unwrap().push(store.as_ref().clone()); // kept for the next tick
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let late = runtime.block_on(async move {
            let at = tokio::time::Instant::now() + Duration::from_secs(1);
            let wall = Timestamp::now() + (at - tokio::time::Instant::now());
            let tasks: Vec<_> = (0..JOBS)
                .map(|n| {
                    let (store, app) = (store.clone(), app.clone());
                    tokio::spawn(async move {
                        tokio::time::sleep_until(at).await;
                        let key = format!("job-{n}");
                        let lease = if claiming { Some(claim(&store, &key, wall).await) } else { None };
                        let body = app.spawn(async move { Timestamp::now().since(wall) });
                        let late = body.await.expect("no panic");
                        if let Some(lease) = lease {
                            let end = Ending::of(RunOutcome::Succeeded, REMEMBERED);
                            let look = store.look(&key).await.expect("a look");
                            swap(&store, &key, &look, decide::release(&look, &lease, &end)).await;
                        }
                        late
                    })
                })
                .collect();
            let mut late = Vec::with_capacity(JOBS);
            for task in tasks {
                late.push(task.await.expect("no panic"));
            }
            late
        });
        let _ = send.send(late);
    });
    sorted(late.await.expect("the bare loop ends"))
}

async fn claim(store: &MemoryStore, key: &str, tick: Timestamp) -> Lease {
    let ttl = Duration::from_secs(60);
    let ask = TickClaim {
        tick,
        previous: None,
        delay: Duration::ZERO,
        grace: ttl,
        only_takes_over: false,
        overlap: Overlap::Skip,
        takeovers: 0,
        missed: Missed::Skip,
        schedule: "".into(),
        known_for: ttl,
    };
    let claim = Claim {
        token: uuid::Uuid::new_v4().to_string().into(),
        server: "bare".into(),
        ttl,
        what: ClaimPurpose::Tick(ask),
        remember: REMEMBERED,
        details: RunDetails::default(),
    };
    let look = store.look(key).await.expect("a look");
    let (verdict, swapped) = swap(store, key, &look, decide::claim(&look, &claim)).await;
    let ClaimDecision::Won(mut won) = verdict.decision else { panic!("not won") };
    won.lease.fence = swapped.fence;
    won.lease
}

async fn swap<T>(store: &MemoryStore, key: &str, look: &Look, decision: Decision<T>) -> (T, Swapped) {
    let change = decision.change.expect("a change");
    let swap = Swap {
        expected: look.version,
        expected_lock: look.lock.as_ref().map(|lock| lock.token.clone()),
        nonce: 1,
        change,
    };
    match store.swap(key, &swap).await.expect("an answer") {
        SwapReply::Swapped(swapped) => (decision.reply, swapped),
        SwapReply::Changed(look) => panic!("changed meanwhile: {look:?}"),
    }
}

fn sorted(mut late: Vec<Duration>) -> Vec<Duration> {
    late.sort_unstable();
    late
}

/// The lateness that this percentage does not exceed.
fn late_at(percent: usize, sorted: &[Duration]) -> Duration {
    sorted[(sorted.len() - 1) * percent / 100]
}

fn report(what: &str, late: &[Duration]) {
    let ms = |percent: usize| late_at(percent, late).as_secs_f64() * 1000.0;
    println!("  {what:<39}{:7.1}ms{:8.1}ms{:8.1}ms", ms(50), ms(99), ms(100));
}

/// User and system time of this process, from the kernel's count of 10 ms steps.
async fn processor_time_over(time: Duration) -> Duration {
    let before = processor_time();
    tokio::time::sleep(time).await;
    processor_time().saturating_sub(before)
}

fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("a Linux machine");
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let steps: u64 = fields[11..13].iter().map(|steps| steps.parse::<u64>().expect("a number")).sum();
    Duration::from_millis(steps * 10)
}
