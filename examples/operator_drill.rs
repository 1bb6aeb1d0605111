//! A drill for operators: five servers, five faults drawn at random, and only the command line to find them.
//!
//!     cargo run --example operator_drill            # prints the URL, breaks the fleet, and waits for ctrl-c
//!     jobs --url … list                             # in another terminal: what is wrong?
//!
//! At the end it prints the solution. `--for 60s` ends it by itself, and `JOBS_URL` names another store than files.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::io::Read;
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context;
use jobs::clock::Clock;
use jobs::{Builder, IntoDuration, Jobs, Run, Timestamp, singleton_job};
use tokio::process::{Child, Command};
use tokio::time::sleep;

const SERVERS: usize = 5;
const FAULTS: usize = 5;

/// The environment variables of a server: its number, and the faults that concern it.
const NUMBER: &str = "DRILL_NUMBER";
const BROKEN: &str = "DRILL_FAULTS";

/// What is wrong, for the solution.
const ALL: [(&str, &str); 9] = [
    ("failing", "every run of import-products fails: the supplier answers 503"),
    ("stuck", "send-invoices hangs at 40 of 100 and keeps its lease; its ticks are skipped"),
    ("paused", "bob paused refresh-prices for an hour, \"testing the new supplier\""),
    ("crashed", "the server that ran sync-stock was killed with kill -9 during a run"),
    ("orphaned", "no server has old-cleanup any more; its records are still there"),
    ("clock", "the clock of server-3 is 40 s ahead"),
    ("differs", "server-4 has another schedule for clean-up"),
    ("locked", "server-2 holds the lock stock-table and does not release it"),
    ("stopped", "server-5 is stopped (SIGSTOP): it sends no heartbeat"),
];

/// Pulls new products from the supplier.
#[singleton_job(key = "import-products", ttl = "10s", every = "2s")]
async fn import_products() -> anyhow::Result<()> {
    anyhow::ensure!(!is_broken("failing"), "the supplier answers 503");
    Ok(())
}

/// Sends the invoices of the day.
#[singleton_job(key = "send-invoices", ttl = "10s", every = "3s")]
async fn send_invoices(run: Run) {
    if is_broken("stuck") {
        run.set_progress(40, 100);
        run.set_status("waiting for the mail server");
        std::future::pending::<()>().await;
    }
}

/// Reads the prices of all suppliers.
#[singleton_job(key = "refresh-prices", ttl = "10s", every = "5s")]
async fn refresh_prices() {}

/// Copies the stock to the web shop.
#[singleton_job(key = "sync-stock", ttl = "10s", every = "4s")]
async fn sync_stock(run: Run) {
    run.set_status("copying");
    sleep(Duration::from_secs(1)).await;
}

/// Deletes what is not needed any more.
#[singleton_job(key = "clean-up", ttl = "10s", every = "10s")]
async fn clean_up() {}

/// Removed from the program, but not from the store.
#[singleton_job(key = "old-cleanup", ttl = "10s", every = "2s")]
async fn old_cleanup() {}

fn is_broken(fault: &str) -> bool {
    std::env::var(BROKEN).is_ok_and(|faults| faults.split(',').any(|one| one == fault))
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    match std::env::var(NUMBER) {
        Ok(number) => serve(&number).await,
        Err(_) => drill().await,
    }
}

/// A clock that is wrong.
struct Ahead(Duration);

impl Clock for Ahead {
    fn now(&self) -> Timestamp {
        Timestamp::now() + self.0
    }
}

async fn serve(number: &str) -> anyhow::Result<()> {
    let mut builder = jobs::builder().or_embedded().server_id(format!("server-{number}")).version("1.4");
    if number != "0" {
        builder = builder.disable("old-cleanup");
    }
    if number == "3" && is_broken("clock") {
        builder = builder.clock(Ahead(Duration::from_secs(40)));
    }
    if number == "4" && is_broken("differs") {
        builder = builder.schedule("clean-up", "7s");
    }
    let jobs = builder.start_all().await?;
    if number == "2" && is_broken("locked") {
        let guard = jobs.lock("stock-table").ttl("10s").acquire().await?;
        std::mem::forget(guard); // it is extended as long as the server lives
    }
    tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await??;
    jobs.shutdown().await;
    Ok(())
}

async fn drill() -> anyhow::Result<()> {
    let folder = std::env::temp_dir().join(format!("operator-drill-{}", std::process::id()));
    let url = std::env::var("JOBS_URL").unwrap_or_else(|_| format!("file://{}", folder.display()));
    let faults = drawn();
    let names: Vec<_> = faults.iter().map(|fault| ALL[*fault].0).collect();
    let names = names.join(",");
    let mut servers = Vec::new();
    for number in 1..=SERVERS {
        servers.push(start(&url, number, &names)?);
    }
    // It has the job that is removed.
    let retired = start(&url, 0, &names)?;
    sleep(Duration::from_secs(4)).await;
    stop(retired).await?;
    let operator = operator(&url).start_all().await?;
    break_fleet(&operator, &mut servers, &names).await?;

    println!(
        "five servers, five faults; find them with the command line:\n\n    export JOBS_URL={url}\n    jobsctl list\n"
    );
    match seconds() {
        Some(seconds) => sleep(seconds).await,
        None => tokio::signal::ctrl_c().await?,
    }
    println!("the faults:");
    for fault in faults {
        println!("  - {}", ALL[fault].1);
    }
    operator.shutdown().await;
    for server in &mut servers {
        server.kill().await?;
    }
    let _is_no_folder = std::fs::remove_dir_all(folder);
    Ok(())
}

/// Five different faults. The hash of each is random.
fn drawn() -> BTreeSet<usize> {
    let random = RandomState::new();
    let mut faults: Vec<_> = (0..ALL.len()).collect();
    faults.sort_by_key(|fault| random.hash_one(fault));
    faults.into_iter().take(FAULTS).collect()
}

fn seconds() -> Option<Duration> {
    let mut arguments = std::env::args().skip_while(|argument| argument != "--for");
    arguments.nth(1)?.into_duration().ok()
}

fn operator(url: &str) -> Builder {
    jobs::builder().without_jobs().url(url)
}

fn start(url: &str, number: usize, faults: &str) -> anyhow::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.env(NUMBER, number.to_string()).env(BROKEN, faults).env("JOBS_URL", url);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    command.spawn().context("a server did not start")
}

async fn stop(mut server: Child) -> anyhow::Result<()> {
    drop(server.stdin.take());
    server.wait().await?;
    Ok(())
}

/// The faults that come from outside.
async fn break_fleet(operator: &Jobs, servers: &mut [Child], faults: &str) -> anyhow::Result<()> {
    let is_drawn = |fault: &str| faults.split(',').any(|one| one == fault);
    if is_drawn("paused") {
        let pause = operator.by("bob").pause("refresh-prices").reason("testing the new supplier");
        pause.lasting("1h").await?;
    }
    if is_drawn("crashed") {
        kill_runner(operator, servers).await?;
    }
    if is_drawn("stopped") {
        // The last one, unless that has crashed.
        let process = servers.iter().rev().find_map(Child::id).context("a server runs")?;
        Command::new("kill").args(["-STOP", &process.to_string()]).status().await?;
    }
    Ok(())
}

/// Kills the server that runs `sync-stock`, during the run.
async fn kill_runner(operator: &Jobs, servers: &mut [Child]) -> anyhow::Result<()> {
    for _ in 0..200 {
        let current = operator.history("sync-stock").await?.current;
        let process = |server: &Child| server.id().map(|id| format!("-{id}-"));
        let runner = current.and_then(|run| {
            servers.iter().position(|server| process(server).is_some_and(|id| run.server.contains(&id)))
        });
        if let Some(runner) = runner {
            servers[runner].kill().await?;
            return Ok(());
        }
        sleep(Duration::from_millis(50)).await;
    }
    anyhow::bail!("sync-stock does not run")
}
