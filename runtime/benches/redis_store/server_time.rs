//! What claims cost the server, by its own figures.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use jobs::Timestamp;
use jobs::history::RunOutcome;
use jobs::store::Ending;
use jobs::store::redis::RedisStore;
use redis::aio::MultiplexedConnection;
use tokio::task::JoinSet;

use super::claims::Claims;

const AT_A_TIME: u16 = 100;
const ROUNDS: usize = 20;

/// The median time for each of a claim's steps, a hundred at a time.
pub async fn report(claims: &Arc<Claims>) {
    let mut server = Server(claims.bare.clone());
    claims.decide_a_tick(AT_A_TIME.into()).await;
    let (mut losing, mut winning, mut releasing) = (Vec::new(), Vec::new(), Vec::new());
    // In the first round the keys are new.
    for round in 0..=ROUNDS {
        server.reset().await;
        let lost = |claims: Arc<Claims>, task| async move { claims.lose(task).await };
        all(claims, lost).await;
        let lost = server.micros_of(&["get", "time"]).await;

        server.reset().await;
        let won = |claims: Arc<Claims>, task| async move {
            let claim = Claims::claim(Timestamp::now().as_micros());
            let won = claims.client.acquire(&format!("timed-{task}"), &claim).await;
            won.expect("a Redis that answers").expect("free")
        };
        let leases = all(claims, won).await;
        let won = server.micros_of(&["evalsha"]).await;

        server.reset().await;
        let mut releases = JoinSet::new();
        for lease in leases {
            let end = Ending::of(RunOutcome::Succeeded, 100);
            releases.spawn(async move { lease.release(&end).await.expect("a Redis that answers") });
        }
        releases.join_all().await;
        if round > 0 {
            releasing.push(server.micros_of(&["evalsha"]).await);
            winning.push(won);
            losing.push(lost);
        }
    }
    println!("\nserver time per call, 100 at a time (INFO commandstats)");
    for (step, mut micros) in [("losing", losing), ("winning", winning), ("releasing", releasing)] {
        micros.sort_by(f64::total_cmp);
        println!("  {step:9} {:6.1} µs", micros[micros.len() / 2] / f64::from(AT_A_TIME));
    }
}

async fn all<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
    claims: &Arc<Claims>,
    call: impl Fn(Arc<Claims>, usize) -> F,
) -> Vec<T> {
    let mut calls = JoinSet::new();
    for task in 0..AT_A_TIME {
        calls.spawn(call(claims.clone(), task.into()));
    }
    calls.join_all().await
}

/// The server's processor time for one tick of a job that ten servers have, each with its own connection, and how evenly they share
/// the ticks.
pub async fn report_tick_of_ten(claims: &Claims, url: &str) {
    const JOBS: u32 = 100;
    const SECONDS: u32 = 10;
    let mut redis = Server(claims.bare.clone());
    let (mut servers, mut runs) = (Vec::new(), Vec::new());
    for _ in 0..10 {
        let store = RedisStore::open(url, Some(&claims.namespace)).expect("a Redis URL");
        let mut server = jobs::builder().without_annotated().store(store);
        let runs_here = Arc::new(AtomicU32::new(0));
        for number in 0..JOBS {
            let runs = runs_here.clone();
            let job = jobs::Job::builder(format!("tick-{number}")).every("1s").run(move |_| {
                runs.fetch_add(1, Ordering::Relaxed);
                std::future::ready(())
            });
            server = server.job(job.build().expect("a schedule"));
        }
        runs.push(runs_here);
        servers.push(server.start_all().await.expect("it starts"));
    }
    // Between two ticks.
    let now = Timestamp::now().as_micros();
    tokio::time::sleep(Duration::from_micros(3_500_000 - now.rem_euclid(1_000_000).unsigned_abs())).await;
    redis.reset().await;
    let seen = || runs.iter().map(|runs| runs.load(Ordering::Relaxed)).collect::<Vec<_>>();
    let (before, ran_before) = (redis.processor_micros().await, seen());
    tokio::time::sleep(Duration::from_secs(SECONDS.into())).await;
    let micros = redis.processor_micros().await - before;
    let mut ran: Vec<_> = seen().iter().zip(ran_before).map(|(ran, before)| ran - before).collect();
    let ticks: u32 = ran.iter().sum();
    assert_eq!(ticks, JOBS * SECONDS, "runs of {JOBS} jobs in {SECONDS} s");
    ran.sort_unstable();
    let swaps = redis.calls_of("evalsha").await;
    println!(
        "\n{JOBS} jobs of ten servers, every second: {:.0} µs of the server's processor time per tick, {:.1} swaps; a server ran {} to {} of \
         {ticks} ticks",
        micros / f64::from(ticks),
        swaps / f64::from(ticks),
        ran[0],
        ran[ran.len() - 1]
    );
    for server in servers {
        server.shutdown().await;
    }
}

/// A connection that asks for figures.
struct Server(MultiplexedConnection);

impl Server {
    async fn info(&mut self, section: &str) -> String {
        redis::cmd("INFO").arg(section).query_async(&mut self.0).await.expect("INFO")
    }

    async fn processor_micros(&mut self) -> f64 {
        let info = self.info("cpu").await;
        let seconds = ["used_cpu_user:", "used_cpu_sys:"].map(|name| {
            let figure = info.lines().find_map(|line| line.strip_prefix(name));
            figure.and_then(|figure| figure.trim().parse::<f64>().ok()).expect("a figure")
        });
        seconds.iter().sum::<f64>() * 1e6
    }

    async fn reset(&mut self) {
        let reset = redis::cmd("CONFIG").arg("RESETSTAT").exec_async(&mut self.0).await;
        reset.expect("a Redis that may be configured");
    }

    /// What these commands have cost the server. Those inside of a script count in the script's own time.
    async fn micros_of(&mut self, commands: &[&str]) -> f64 {
        let stats = self.info("commandstats").await;
        commands.iter().map(|command| figure(&stats, command, "usec=")).sum()
    }

    async fn calls_of(&mut self, command: &str) -> f64 {
        figure(&self.info("commandstats").await, command, "calls=")
    }
}

fn figure(stats: &str, command: &str, name: &str) -> f64 {
    let mut lines = stats.lines().filter_map(|line| line.strip_prefix("cmdstat_")?.split_once(':'));
    let figures =
        lines.find_map(|(of, figures)| (of == command).then_some(figures)).expect("a command that was sent");
    let figure = figures.split(',').find_map(|figure| figure.strip_prefix(name));
    figure.and_then(|figure| figure.parse().ok()).expect("a figure")
}
