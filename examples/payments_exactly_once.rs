//! Books payments exactly once, while servers are killed in the middle of their work.
//!
//!     cargo run --example payments_exactly_once
//!     JOBS_URL=postgres://localhost/postgres cargo run --example payments_exactly_once
//!
//! Four processes of this program book one payment per account and tick, in the database that is also the store, and are killed
//! at random instants. Four others do the same without `finish`. The example fails if `finish` loses or repeats a payment, or if
//! the others do neither.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::io::Read;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, ensure};
use jobs::schedule::Missed;
use jobs::{Job, Run, Timestamp};
use rusqlite::{Connection, TransactionBehavior};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

const SERVERS: usize = 4;
const ACCOUNTS: usize = 120;
/// The one tick of every account is this long after the start of the servers.
const TICK_AFTER: Duration = Duration::from_secs(7);
const KILLS_FOR: Duration = Duration::from_secs(7);
const PATIENCE: Duration = Duration::from_secs(15);

/// The environment variables of a server: its fleet, which is its namespace, the URL of its store, and the schedule of its jobs.
const FLEET: &str = "PAYMENTS_FLEET";
const URL: &str = "PAYMENTS_URL";
const EVERY: &str = "PAYMENTS_EVERY";

/// Books one payment on SQLite. What a crash leaves is the payment and the finished run, or neither.
fn book_on_sqlite(path: &str, payment: &Payment, run: &Run) -> anyhow::Result<()> {
    let mut connection = open(path)?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute_batch(&payment.insert())?;
    if payment.is_finished_with_its_run() {
        run.finish_blocking(&transaction)?;
    }
    std::thread::sleep(up_to(5)); // a kill may meet this instant
    Ok(transaction.commit()?)
}

/// Books one payment on PostgreSQL.
async fn book_on_postgres(url: &str, payment: &Payment, run: &Run) -> anyhow::Result<()> {
    let mut client = connect(url).await?;
    let mut transaction = client.transaction().await?;
    transaction.batch_execute(&payment.insert()).await?;
    if payment.is_finished_with_its_run() {
        run.finish(&mut transaction).await?;
    }
    sleep(up_to(5)).await;
    Ok(transaction.commit().await?)
}

/// The job's function.
async fn book(bank: Bank, fleet: String, run: Run) -> anyhow::Result<()> {
    let tick = run.tick().context("started by its schedule")?;
    let payment = Payment { fleet, account: run.key().to_owned(), tick: tick.as_micros() };
    sleep(up_to(40)).await;
    match bank {
        Bank::Sqlite(path) => {
            let run = run.clone();
            tokio::task::spawn_blocking(move || book_on_sqlite(&path, &payment, &run)).await??;
        }
        Bank::Postgres(url) => book_on_postgres(&url, &payment, &run).await?,
    }
    sleep(up_to(150)).await; // a kill here is after the commit, and before the end of the run
    Ok(())
}

fn job(account: usize, every: &str, bank: Bank, fleet: String) -> anyhow::Result<Job> {
    // The jitter spreads the runs over the time of the kills.
    let job = Job::builder(format!("account-{account}")).every(every).ttl("1s").jitter("6s");
    // A crashed run is taken over, a tick that no server lived to start runs late, an error of the database is tried again.
    let job = job.retry_on_crash(20).missed(Missed::RunOnce).retries(5, "20ms");
    Ok(job.run(move |run| book(bank.clone(), fleet.clone(), run)).build()?)
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    if let Ok(fleet) = std::env::var(FLEET) {
        return serve(&fleet).await;
    }
    let folder = std::env::temp_dir().join(format!("payments-{}", Timestamp::now().as_micros()));
    std::fs::create_dir_all(&folder)?;
    let postgres = std::env::var("JOBS_URL").ok().filter(|url| url.starts_with("postgres"));
    let bank = |fleet: &str| match &postgres {
        Some(url) => Bank::Postgres(url.clone()),
        // One file for each fleet, so that they do not wait for each other.
        None => Bank::Sqlite(folder.join(fleet).display().to_string()),
    };
    let store = postgres.as_ref().map_or("SQLite", |_| "PostgreSQL");
    println!(
        "{ACCOUNTS} accounts, {SERVERS} servers that are killed again and again; the database: {store}."
    );

    let number = Timestamp::now().as_micros();
    let (protected, control) = (format!("{FINISHES}{number}"), format!("control-{number}"));
    for fleet in [&protected, &control] {
        bank(fleet).set_up().await?;
    }
    let (protected, control) =
        tokio::try_join!(run_fleet(bank(&protected), &protected), run_fleet(bank(&control), &control))?;
    let _ = std::fs::remove_dir_all(&folder);

    println!("\n                     ticks  kills  payments  double bookings  missing");
    protected.print("with run.finish");
    control.print("without");
    ensure!(protected.doubles == 0, "payments were booked twice");
    ensure!(protected.missing == 0, "payments are missing");
    ensure!(control.doubles + control.missing > 0, "the kills met no commit: the example shows nothing");
    println!("\nEvery payment was booked exactly once with run.finish, and only with it.");
    Ok(())
}

/// One server: it ends when its parent does.
async fn serve(fleet: &str) -> anyhow::Result<()> {
    let (url, every) = (std::env::var(URL)?, std::env::var(EVERY)?);
    let bank = match url.strip_prefix("sqlite://") {
        Some(path) => Bank::Sqlite(path.to_owned()),
        None => Bank::Postgres(url.clone()),
    };
    let job = |account| job(account, &every, bank.clone(), fleet.to_owned());
    let jobs: Vec<_> = (0..ACCOUNTS).map(job).collect::<Result<_, _>>()?;
    let jobs = jobs::builder().url(&url).namespace(fleet).without_annotated().jobs(jobs).start_all().await?;
    println!("ready");
    tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await??;
    jobs.shutdown().await;
    Ok(())
}

/// Lets a fleet book the payments of one tick, kills servers at random instants, and counts the payments.
async fn run_fleet(bank: Bank, fleet: &str) -> anyhow::Result<Report> {
    let second = (Timestamp::now() + TICK_AFTER).as_micros() / 1_000_000;
    let tick = Timestamp::from_micros(second * 1_000_000);
    let every = format!("{} * * * * *", second % 60);
    let start = || start(&bank, fleet, &every);

    let mut servers = Vec::new();
    for _ in 0..SERVERS {
        servers.push(start()?);
    }
    for server in &mut servers {
        let output = server.stdout.as_mut().context("its output is piped")?;
        let line = timeout(PATIENCE, BufReader::new(output).lines().next_line()).await;
        ensure!(line.context("a server does not start")??.as_deref() == Some("ready"), "a server failed");
    }
    ensure!(Timestamp::now() < tick, "the servers started too slowly");
    sleep(tick.since(Timestamp::now())).await;

    let mut kills = 0;
    while Timestamp::now() < tick + KILLS_FOR {
        sleep(Duration::from_millis(60) + up_to(200)).await;
        let server = &mut servers[kills % SERVERS];
        server.kill().await?;
        *server = start()?;
        kills += 1;
    }
    // The runs that were killed last are taken over after their ttl.
    sleep(Duration::from_secs(3)).await;
    let give_up = Timestamp::now() + PATIENCE;
    while bank.payments(fleet, tick).await?.len() < ACCOUNTS && Timestamp::now() < give_up {
        sleep(Duration::from_millis(500)).await;
    }
    for server in &mut servers {
        drop(server.stdin.take());
        ensure!(server.wait().await?.success(), "a server failed");
    }

    let payments = bank.payments(fleet, tick).await?;
    Ok(Report {
        ticks: ACCOUNTS,
        kills,
        payments: payments.values().sum(),
        doubles: payments.values().filter(|times| **times > 1).count(),
        missing: ACCOUNTS - payments.len(),
    })
}

/// Killed when it is dropped.
fn start(bank: &Bank, fleet: &str, every: &str) -> anyhow::Result<Child> {
    let mut server = Command::new(std::env::current_exe()?);
    server.env(FLEET, fleet).env(URL, bank.url()).env(EVERY, every);
    server.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    Ok(server.spawn()?)
}

/// A random time of at most this number of milliseconds.
fn up_to(millis: u64) -> Duration {
    Duration::from_millis(RandomState::new().hash_one(()) % (millis + 1))
}

/// Fleets with this prefix finish their runs with their payments.
const FINISHES: &str = "finish-";

struct Payment {
    fleet: String,
    account: String,
    tick: i64,
}

impl Payment {
    fn is_finished_with_its_run(&self) -> bool {
        self.fleet.starts_with(FINISHES)
    }

    fn insert(&self) -> String {
        let Self { fleet, account, tick } = self;
        format!("INSERT INTO payment (fleet, account, tick) VALUES ('{fleet}', '{account}', {tick})")
    }
}

/// The application's database. Nothing in the table itself refuses a payment that was booked before.
#[derive(Clone)]
enum Bank {
    Sqlite(String),
    Postgres(String),
}

const TABLE: &str = "CREATE TABLE IF NOT EXISTS payment (fleet TEXT, account TEXT, tick BIGINT)";

impl Bank {
    fn url(&self) -> String {
        match self {
            Self::Sqlite(path) => format!("sqlite://{path}"),
            Self::Postgres(url) => url.clone(),
        }
    }

    async fn set_up(&self) -> anyhow::Result<()> {
        match self {
            Self::Sqlite(path) => Ok(open(path)?.execute_batch(TABLE)?),
            Self::Postgres(url) => Ok(connect(url).await?.batch_execute(TABLE).await?),
        }
    }

    /// How often the payment of each account was booked for a tick.
    async fn payments(&self, fleet: &str, tick: Timestamp) -> anyhow::Result<BTreeMap<String, i64>> {
        let count = format!(
            "SELECT account, count(*) FROM payment WHERE fleet = '{fleet}' AND tick = {} GROUP BY account",
            tick.as_micros()
        );
        match self {
            Self::Sqlite(path) => {
                let connection = open(path)?;
                let mut count = connection.prepare(&count)?;
                let rows = count.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
                Ok(rows.collect::<Result<_, _>>()?)
            }
            Self::Postgres(url) => {
                let rows = connect(url).await?.query(&count, &[]).await?;
                Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
            }
        }
    }
}

fn open(path: &str) -> anyhow::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(Duration::from_secs(5))?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    Ok(connection)
}

async fn connect(url: &str) -> anyhow::Result<tokio_postgres::Client> {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

struct Report {
    ticks: usize,
    kills: usize,
    payments: i64,
    doubles: usize,
    missing: usize,
}

impl Report {
    fn print(&self, name: &str) {
        let Self { ticks, kills, payments, doubles, missing } = self;
        println!("  {name:<17} {ticks:>6} {kills:>6} {payments:>9} {doubles:>16} {missing:>8}");
    }
}
