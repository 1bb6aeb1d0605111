//! What a claim costs on Redis, beside a bare client that sends the same commands, and beside rslock.
//!
//!     REDIS_URL=redis://127.0.0.1:6379 cargo bench -p singleton-jobs --features store-testing --bench redis_store
//!
//! All of them take turns in one process, since machines differ and are noisy: only the ratios count. `SECONDS` (1) sets how
//! long each turn lasts, `ROUNDS` (5) how many turns each of them gets; the median counts. `ONLY` names one of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use claims::Claims;

mod claims;
mod server_time;

#[tokio::main]
async fn main() {
    let url = std::env::var("REDIS_URL").expect("REDIS_URL names a Redis that may be written to");
    let number = |name: &str, default| std::env::var(name).map_or(default, |text| text.parse().expect(name));
    let turn = Duration::from_secs(number("SECONDS", 1));
    let only = std::env::var("ONLY").ok();
    let claims = Arc::new(Claims::new(&url).await);

    for concurrency in [100, 1] {
        let mut rates = BTreeMap::<&str, Vec<f64>>::new();
        claims.decide_a_tick(concurrency).await;
        for _ in 0..number("ROUNDS", 5) {
            for contender in CONTENDERS.iter().filter(|c| only.as_deref().is_none_or(|only| only == c.name)) {
                let rate = measure(&claims, contender.call, concurrency, turn).await;
                rates.entry(contender.name).or_default().push(rate);
            }
        }
        if only.is_some() {
            println!("{concurrency} at a time: {rates:.0?}");
        } else {
            report(concurrency, &rates);
        }
    }
    server_time::report(&claims).await;
    server_time::report_tick_of_ten(&claims, &url).await;
}

type Call = fn(Arc<Claims>, usize) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

struct Contender {
    name: &'static str,
    call: Call,
}

const CONTENDERS: &[Contender] = &[
    Contender { name: "lose", call: |claims, task| Box::pin(async move { claims.lose(task).await }) },
    Contender {
        name: "lose, bare look",
        call: |claims, task| Box::pin(async move { claims.bare_look(task).await }),
    },
    Contender {
        name: "lose, bare SET NX",
        call: |claims, task| Box::pin(async move { claims.set_nx(task).await }),
    },
    Contender {
        name: "lose, rslock",
        call: |claims, task| Box::pin(async move { claims.rslock_loses(task).await }),
    },
    Contender {
        name: "win and release",
        call: |claims, task| Box::pin(async move { claims.win(task).await }),
    },
    Contender {
        name: "win and release, bare look-swap-swap",
        call: |claims, task| Box::pin(async move { claims.bare_win(task).await }),
    },
    Contender {
        name: "win and release, rslock",
        call: |claims, task| Box::pin(async move { claims.rslock_wins(task).await }),
    },
];

/// Calls per second.
async fn measure(claims: &Arc<Claims>, call: Call, concurrency: usize, turn: Duration) -> f64 {
    let begun = Instant::now();
    let tasks: Vec<_> = (0..concurrency)
        .map(|task| {
            let claims = claims.clone();
            tokio::spawn(async move {
                let mut calls = 0_u32;
                while begun.elapsed() < turn {
                    call(claims.clone(), task).await;
                    calls += 1;
                }
                calls
            })
        })
        .collect();
    let mut calls = 0.0;
    for task in tasks {
        calls += f64::from(task.await.expect("no call panics"));
    }
    calls / begun.elapsed().as_secs_f64()
}

fn report(concurrency: usize, rates: &BTreeMap<&str, Vec<f64>>) {
    let median = |name: &str| {
        let mut rates = rates[name].clone();
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    };
    println!("\n{concurrency} at a time                              calls/s   µs each");
    for contender in CONTENDERS {
        let rate = median(contender.name);
        println!("  {:38} {rate:9.0} {:9.1}", contender.name, 1e6 / rate);
    }
    let ratio = |ours: &str, other: &str| median(ours) / median(other);
    println!("  lose: {:.2} of a bare look", ratio("lose", "lose, bare look"));
    println!("  lose: {:.2} of rslock", ratio("lose", "lose, rslock"));
    println!("  lose: takes {:.2} times as long as a refused SET NX", ratio("lose, bare SET NX", "lose"));
    println!(
        "  win and release: {:.2} of bare look-swap-swap, {:.2} of rslock",
        ratio("win and release", "win and release, bare look-swap-swap"),
        ratio("win and release", "win and release, rslock")
    );
}
