//! What ten thousand jobs cost: to start, to have, and when they all fire at once.
//!
//!     cargo bench -p singleton-jobs --bench ten_thousand_jobs
//!
//! Every figure stands beside that of bare Tokio doing the same in the same run, since machines differ and
//! are noisy. `IDLE_SECONDS` (20) sets how long the idle processor time is measured.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use jobs::store::memory::MemoryStore;
use jobs::{Job, Timestamp};

const JOBS: usize = 10_000;

#[tokio::main(worker_threads = 2)]
async fn main() {
    let idle = std::env::var("IDLE_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(20);
    let idle = Duration::from_secs(idle);

    let empty = processor_time_over(idle).await;
    let begun = std::time::Instant::now();
    let jobs = start("idle", "0 0 1 1 *", |_| ()).await;
    let started = begun.elapsed();
    let with_jobs = processor_time_over(idle).await;
    jobs.shutdown().await;

    println!("start_all of {JOBS} jobs:              {started:.0?}");
    println!("processor time over {idle:?}, no jobs:   {empty:?}");
    println!("processor time over {idle:?}, {JOBS}:  {with_jobs:?}");

    println!("\nlateness when {JOBS} are due at once      median      99 %       max");
    for round in 1..=3 {
        let bare = bare_lateness().await;
        let ours = our_lateness(round).await;
        report("bare sleep_until, one task each", &bare);
        report("jobs, claimed on the memory store", &ours);
        let ratio = |at: fn(&[Duration]) -> Duration| at(&ours).as_secs_f64() / at(&bare).as_secs_f64();
        println!("  ratio{:38.1}x{:9.1}x{:9.1}x", ratio(median), ratio(most), ratio(max));
    }
}

async fn start(
    name: &str,
    every: &str,
    note: impl Fn(Timestamp) + Clone + Send + Sync + 'static,
) -> jobs::Jobs {
    let mut builder = jobs::builder().without_annotated().store(MemoryStore::named(name));
    for n in 0..JOBS {
        let note = note.clone();
        let job = Job::new(format!("job-{n}")).every(every).expect("a good schedule").run(move |run| {
            note(run.tick().expect("a tick"));
            std::future::ready(())
        });
        builder = builder.job(job);
    }
    builder.start_all().await.expect("the jobs start")
}

/// How late each job's body began, by the clock that the memory store has too.
async fn our_lateness(round: u32) -> Vec<Duration> {
    let late = Arc::new(Mutex::new(Vec::with_capacity(JOBS)));
    let noted = late.clone();
    let jobs = start(&format!("round-{round}"), "5s", move |tick| {
        let now = Timestamp::now();
        noted.lock().unwrap().push(now.since(tick));
    })
    .await;
    while late.lock().unwrap().len() < JOBS {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    jobs.shutdown().await;
    sorted(late.lock().unwrap()[..JOBS].to_vec())
}

async fn bare_lateness() -> Vec<Duration> {
    let at = tokio::time::Instant::now() + Duration::from_secs(2);
    let wall = SystemTime::now() + (at - tokio::time::Instant::now());
    let tasks: Vec<_> = (0..JOBS)
        .map(|_| {
            tokio::spawn(async move {
                tokio::time::sleep_until(at).await;
                SystemTime::now().duration_since(wall).unwrap_or_default()
            })
        })
        .collect();
    let mut late = Vec::with_capacity(JOBS);
    for task in tasks {
        late.push(task.await.expect("no panic"));
    }
    sorted(late)
}

fn sorted(mut late: Vec<Duration>) -> Vec<Duration> {
    late.sort_unstable();
    late
}

fn median(late: &[Duration]) -> Duration {
    late[late.len() / 2]
}

fn most(late: &[Duration]) -> Duration {
    late[late.len() * 99 / 100]
}

fn max(late: &[Duration]) -> Duration {
    late[late.len() - 1]
}

fn report(what: &str, late: &[Duration]) {
    let ms = |duration: Duration| duration.as_secs_f64() * 1000.0;
    println!("  {what:<38}{:7.1}ms{:8.1}ms{:8.1}ms", ms(median(late)), ms(most(late)), ms(max(late)));
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
