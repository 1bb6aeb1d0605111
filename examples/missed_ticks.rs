//! All servers are down for a while. Of the missed ticks, one job runs the newest, once; another job runs none.
//!
//!     cargo run --example missed_ticks

use std::time::Duration;

use anyhow::{Context, ensure};
use jobs::events::{Event, EventKind};
use jobs::store::memory::MemoryStore;
use jobs::{Jobs, Run, State, Timestamp, singleton_job};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{sleep, timeout};

const GAP: Duration = Duration::from_secs(2);

/// Days whose books are closed.
#[derive(Clone)]
struct Books(UnboundedSender<Timestamp>);

/// Mornings on which a greeting was sent.
#[derive(Clone)]
struct Mornings(UnboundedSender<Timestamp>);

// In production `every = "0 3 * * *"`, and all servers were down from 2 to 5.
/// Must run for each day, however late.
#[singleton_job(key = "close-books", ttl = "10s", every = "2s", grace = "300ms", missed = "run_once")]
async fn close_books(State(books): State<Books>, run: Run) -> anyhow::Result<()> {
    let tick = run.tick().context("started by its schedule")?; // the day to close, however late it is
    Ok(books.0.send(tick)?)
}

/// Is useless when it is late.
#[singleton_job(key = "wish-good-morning", ttl = "10s", every = "2s", grace = "300ms")]
async fn wish_good_morning(State(mornings): State<Mornings>, run: Run) -> anyhow::Result<()> {
    let tick = run.tick().context("started by its schedule")?;
    Ok(mornings.0.send(tick)?)
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let store = MemoryStore::named("missed-ticks"); // it outlives the servers, as a Redis does
    let (books, mut closed) = unbounded_channel();
    let (mornings, mut wished) = unbounded_channel();
    let (books, mornings) = (Books(books), Mornings(mornings));

    let fleet = start(&store, &books, &mornings).await?;
    let last = next(&mut closed).await?;
    println!("the books of {} are closed; all servers are shut down", time_of(last));
    for server in fleet {
        server.shutdown().await;
    }
    while wished.try_recv().is_ok() {} // before that

    let (first_missed, newest_missed) = (last + GAP, last + GAP * 2);
    let back = newest_missed + Duration::from_millis(700); // longer than the grace
    sleep(back.since(Timestamp::now())).await;
    println!("at {} the servers start again", time_of(Timestamp::now()));
    let fleet = start(&store, &books, &mornings).await?;

    let late = next(&mut closed).await?;
    println!("close-books       runs for {}, the newest missed tick", time_of(late));
    ensure!(late == newest_missed, "it should run for {newest_missed}, and not for the older {first_missed}");

    let wish = next(&mut wished).await?;
    println!("wish-good-morning runs for {}, its next tick", time_of(wish));
    ensure!(wish >= back, "it ran for a tick past its grace");

    let next = next(&mut closed).await?;
    println!("close-books       runs for {}, as usual", time_of(next));
    ensure!(next > back, "only one missed tick runs, and only once");
    for server in fleet {
        server.shutdown().await;
    }
    Ok(())
}

/// Starts three servers.
async fn start(store: &MemoryStore, books: &Books, mornings: &Mornings) -> anyhow::Result<Vec<Jobs>> {
    let mut fleet = Vec::new();
    for _ in 0..3 {
        let server = jobs::builder().store(store.clone()).state(books.clone()).state(mornings.clone());
        fleet.push(server.on_event(report).start_all().await?);
    }
    Ok(fleet)
}

/// The server that wins the next tick reports those that were missed.
fn report(event: &Event) {
    if let EventKind::Missed { count, first, .. } = &event.kind {
        println!("{:<17} missed {count} tick(s) from {} on", event.key, time_of(*first));
    }
}

async fn next(ticks: &mut UnboundedReceiver<Timestamp>) -> anyhow::Result<Timestamp> {
    let tick = timeout(Duration::from_secs(20), ticks.recv()).await.context("no run within 20 s")?;
    tick.context("the jobs have ended")
}

/// 12:00:03.7 of 2026-01-31T12:00:03.712345Z.
fn time_of(time: Timestamp) -> String {
    time.to_string().trim_end_matches('Z').chars().skip(11).take(10).collect()
}
