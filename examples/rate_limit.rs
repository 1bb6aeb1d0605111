//! A service that allows five calls at a time, and fifty tasks in five processes that call it.
//!
//!     cargo run --example rate_limit
//!     JOBS_URL=redis://localhost:6379 cargo run --example rate_limit
//!
//! First the tasks call without a limit, and the supplier refuses most calls. Then they share a semaphore. The program
//! fails if the supplier gets a sixth call at a time, or if a call is lost.

use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use jobs::Timestamp;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

const ALLOWED: u32 = 5;
const PROCESSES: u32 = 5;
const TASKS: u32 = 10; // in each of them
const CALLS: u32 = 2; // of each task
const A_CALL_TAKES: Duration = Duration::from_millis(200);
const PATIENCE: Duration = Duration::from_secs(40);

/// Calls within the limit of all servers: a sixth caller waits until a slot is free.
async fn call_within_the_limit(supplier: &str) -> anyhow::Result<Answer> {
    jobs::semaphore("supplier-api", ALLOWED).ttl("10s").run(|_| call(supplier)).await?
}

/// One call of the supplier's API.
async fn call(supplier: &str) -> anyhow::Result<Answer> {
    let mut connection = TcpStream::connect(supplier).await?;
    match connection.read_u8().await? {
        SERVED => Ok(Answer::Served),
        _ => Ok(Answer::TooManyCalls),
    }
}

#[derive(PartialEq)]
enum Answer {
    Served,
    TooManyCalls,
}

const SERVED: u8 = 1;
const REFUSED: u8 = 0;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    if let [how, supplier] = arguments.as_slice() {
        return work(how == "limited", supplier).await;
    }
    tokio::select! {
        shown = timeout(PATIENCE, show()) => shown.context("the calls took too long")?,
        _ = tokio::signal::ctrl_c() => bail!("interrupted"),
    }
}

/// One of the five processes: ten tasks that call the supplier.
async fn work(limited: bool, supplier: &str) -> anyhow::Result<()> {
    let jobs = jobs::builder().or_embedded().without_jobs().start_all().await?;
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let supplier = supplier.to_owned();
        tasks.spawn(async move {
            for _ in 0..CALLS {
                let answer =
                    if limited { call_within_the_limit(&supplier).await? } else { call(&supplier).await? };
                ensure!(!limited || answer == Answer::Served, "refused despite the limit");
            }
            Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    jobs.shutdown().await;
    Ok(())
}

async fn show() -> anyhow::Result<()> {
    let wanted = PROCESSES * TASKS * CALLS;
    println!("{PROCESSES} processes with {TASKS} tasks each; the supplier allows {ALLOWED} calls at a time.");

    println!("\nwithout a limit:");
    let free = call_all("free").await?;
    println!("  at most {} at a time, {} of {wanted} calls refused", free.most, free.refused);
    ensure!(
        free.refused > 0,
        "no call was refused without a limit: this machine is too slow to show a difference"
    );

    println!("\nwith semaphore(\"supplier-api\", {ALLOWED}):");
    let limited = call_all("limited").await?;
    println!("  at most {} at a time, {} of {wanted} calls refused", limited.most, limited.refused);
    ensure!(limited.most <= ALLOWED, "{} calls at the same time, {ALLOWED} are allowed", limited.most);
    ensure!(limited.served == wanted, "{} calls were served, not {wanted}", limited.served);

    let (served, took) = (f64::from(limited.served), limited.took.as_secs_f64());
    let possible = f64::from(ALLOWED) / A_CALL_TAKES.as_secs_f64();
    println!("\n{served} calls in {took:.1} s: {:.1} per second; {possible} are possible.", served / took);
    Ok(())
}

/// Starts the processes, and shows and returns what the supplier sees.
async fn call_all(how: &str) -> anyhow::Result<Seen> {
    let supplier = Supplier::default();
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?.to_string();
    // A namespace of its own: this example may run several times on one store.
    let namespace = format!("rate-limit-{}", Timestamp::now().as_micros());
    let start = || -> anyhow::Result<Child> {
        let mut process = Command::new(std::env::current_exe()?);
        process.args([how, &address]).env("JOBS_NAMESPACE", &namespace).stdin(Stdio::null());
        Ok(process.kill_on_drop(true).spawn()?)
    };
    let processes = (0..PROCESSES).map(|_| start()).collect::<Result<Vec<_>, _>>()?;
    let ended = async {
        for mut process in processes {
            ensure!(process.wait().await?.success(), "a process failed");
        }
        Ok(())
    };
    tokio::select! {
        ended = ended => ended?,
        failed = supplier.serve(listener) => return Err(failed),
        () = supplier.show() => {}
    }
    let seen = supplier.seen();
    Ok(seen.clone())
}

/// Stands for the API of another company. It counts its calls.
#[derive(Clone, Default)]
struct Supplier(Arc<Mutex<Seen>>);

#[derive(Clone, Default)]
struct Seen {
    inside: u32,
    most: u32,
    served: u32,
    refused: u32,
    begun: Option<Instant>,
    /// From the first call to the end of the last.
    took: Duration,
}

impl Supplier {
    /// Returns only if it fails.
    async fn serve(&self, listener: TcpListener) -> anyhow::Error {
        loop {
            match listener.accept().await {
                Ok((connection, _)) => drop(tokio::spawn(self.clone().answer(connection))),
                Err(error) => return error.into(),
            }
        }
    }

    async fn answer(self, mut connection: TcpStream) {
        let allowed = self.seen().enter();
        sleep(A_CALL_TAKES).await;
        self.seen().leave(allowed);
        let answer = if allowed { SERVED } else { REFUSED };
        drop(connection.write_u8(answer).await); // a caller that has disconnected fails by itself
    }

    /// Prints a line every 250 ms, with a dot for each call in progress.
    async fn show(&self) {
        loop {
            sleep(Duration::from_millis(250)).await;
            let Seen { inside, served, begun, .. } = self.seen().clone();
            if let Some(begun) = begun {
                let (time, dots) = (begun.elapsed().as_secs_f32(), "●".repeat(inside as usize));
                let line = format!("  {time:4.1} s  {served:>3} served  {inside:>2} in progress  {dots}");
                println!("{}", line.trim_end());
            }
        }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seen {
    fn enter(&mut self) -> bool {
        self.begun.get_or_insert_with(Instant::now);
        self.inside += 1;
        self.most = self.most.max(self.inside);
        self.inside <= ALLOWED
    }

    fn leave(&mut self, allowed: bool) {
        self.inside -= 1;
        if allowed {
            self.served += 1;
        } else {
            self.refused += 1;
        }
        self.took = self.begun.map_or(Duration::ZERO, |begun| begun.elapsed());
    }
}
