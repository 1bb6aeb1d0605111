//! The dashboard of a shop with five servers: quick, long, failing, retrying, paused and overdue jobs, a crash, and a leader.
//!
//!     cargo run --example dashboard                           prints its address, and serves until ctrl-c
//!     cargo run --example dashboard -- --port 8080
//!     cargo run --example dashboard -- --for 20s              checks its own pages, and ends
//!
//! Four processes of this program run the jobs, on files of this machine or on the store in `JOBS_URL`. This one serves the
//! dashboard, with actions allowed, since only this machine reaches it.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use jobs::dashboard::Dashboard;
use jobs::{IntoDuration, Jobs, Run, Timestamp, singleton_job};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};
use tokio::time::sleep;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// The environment variable with the number of a worker process.
const NUMBER: &str = "DASHBOARD_WORKER";
const WORKERS: usize = 4;
/// The worker with a limit of one run, so that a long job keeps a short one waiting.
const SMALL_WORKER: &str = "4";
const SMALL_WORKERS_JOBS: [&str; 2] = ["archive-orders", "compress-logs"];

/// Pulls new products from the supplier.
#[singleton_job(key = "import-products", ttl = "10s", every = "2s")]
async fn import_products(run: Run) {
    let products = run.fence().rem_euclid(70);
    tracing::info!(products, "the supplier has new products");
    sleep(Duration::from_millis(100) + Duration::from_millis(9) * u32::try_from(products).unwrap_or(0)).await;
    tracing::info!("imported");
}

/// Rebuilds the search index, shelf by shelf.
#[singleton_job(key = "search/rebuild", ttl = "3s", every = "40s")]
async fn rebuild_search(run: Run) {
    for done in 0..60 {
        run.set_progress(done, 60);
        run.set_status(format!("shelf {} of 12", done / 5 + 1));
        sleep(Duration::from_millis(500)).await;
    }
    run.set_progress(60, 60);
}

/// Sends invoices by mail. The mail server refuses them.
#[singleton_job(key = "send-invoices", ttl = "10s", every = "8s")]
async fn send_invoices() -> anyhow::Result<()> {
    sleep(Duration::from_millis(700)).await;
    tracing::warn!("mail.example.com answers 550");
    bail!("mail server refused 3 of 40 invoices: 550 <billing@example.com>: sender rejected")
}

/// Compares the stock with the warehouse. The warehouse answers at the third try.
#[singleton_job(key = "sync-stock", ttl = "10s", every = "6s", retries = 2, retry_delay = "500ms")]
async fn sync_stock(run: Run) -> anyhow::Result<()> {
    sleep(Duration::from_millis(200)).await;
    ensure!(run.retry() == 2 || run.fence() % 3 == 0, "the warehouse does not answer");
    Ok(())
}

/// Resizes new images. A run that did not finish is taken over.
#[singleton_job(key = "resize-images", ttl = "2s", every = "10s", on_crash = "retry")]
async fn resize_images(run: Run) {
    sleep(Duration::from_millis(900)).await;
    if run.attempt() == 1 && std::env::var("DASHBOARD_CRASH").is_ok() {
        std::process::exit(1); // as if the machine had lost its power
    }
}

/// Refreshes prices from the exchange.
#[singleton_job(key = "refresh-prices", ttl = "10s", every = "5s")]
async fn refresh_prices() {
    sleep(Duration::from_millis(50)).await;
}

/// Archives orders of the last year. Its server is often busy with another job, and then this one is overdue.
#[singleton_job(key = "archive-orders", ttl = "10s", every = "4s", grace = "1s")]
async fn archive_orders() {}

/// Compresses logs, for a long time.
#[singleton_job(key = "compress-logs", ttl = "6s", every = "90s")]
async fn compress_logs(run: Run) {
    for done in 0..85 {
        run.set_progress(done, 85);
        sleep(Duration::from_secs(1)).await;
    }
}

/// Closes the books of the day.
#[singleton_job(key = "close-books", every = "0 3 * * *", tz = "Europe/Berlin")]
async fn close_books() {}

/// Writes a backup of the database.
#[singleton_job(key = "backup-database", every = "0 3 * * *", tz = "Europe/Berlin", timeout = "2h")]
async fn backup_database() {}

/// Deletes sessions that have expired.
#[singleton_job(key = "delete-sessions", every = "*/15 * * * *")]
async fn delete_sessions() {}

/// Sends the report of the week to all shops.
#[singleton_job(key = "reports:weekly", every = "0 7 * * MON", tz = "Europe/Berlin")]
async fn weekly_report() {}

/// Exports all orders. Started manually.
#[singleton_job(key = "export-orders", ttl = "10s")]
async fn export_orders(run: Run) {
    for done in 0..10 {
        run.set_progress(done, 10);
        sleep(Duration::from_secs(1)).await;
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::registry().with(jobs::LogTail::new()).init();
    match std::env::var(NUMBER) {
        Ok(number) => work(&number).await,
        Err(_) => serve().await,
    }
}

/// One of the four processes that run jobs. It ends when the pipe from its parent closes.
async fn work(number: &str) -> anyhow::Result<()> {
    let mut builder = jobs::builder().or_embedded().server_id(format!("web-{number}")).version("1.4.2");
    builder = builder.label("region", if number == "1" { "eu-west" } else { "eu-central" });
    if number == SMALL_WORKER {
        builder = builder.max_concurrent(1).label("size", "small");
    }
    let has_it = |key: &str| SMALL_WORKERS_JOBS.contains(&key) == (number == SMALL_WORKER);
    for job in jobs::manifest()?.jobs.iter().filter(|job| !has_it(&job.key)) {
        builder = builder.disable(&job.key);
    }
    let jobs = builder.start_all().await?;
    let _candidate = jobs.leader("cache-warmer").ttl("5s").campaign()?;
    let ended = async { tokio::io::stdin().read_to_end(&mut Vec::new()).await };
    tokio::select! {
        result = ended => drop(result?),
        result = lock_things(&jobs, number) => result?,
    }
    jobs.shutdown().await;
    Ok(())
}

/// What a shop locks beside its jobs.
async fn lock_things(jobs: &Jobs, number: &str) -> anyhow::Result<()> {
    let done = jobs.once(format!("webhook:{number}")).within("24h");
    done.run(|_| async { Ok::<_, std::io::Error>(()) }).await?;
    let _slot = jobs.semaphore("supplier-api", 5).wait("5s").acquire().await?;
    loop {
        let stock = jobs.lock("stock:tea").ttl("5s").try_acquire().await?;
        sleep(Duration::from_secs(4)).await;
        if let Some(stock) = stock {
            stock.release().await?;
        }
    }
}

async fn serve() -> anyhow::Result<()> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let value = |name: &str| {
        let place = arguments.iter().position(|argument| argument == name)?;
        arguments.get(place + 1).cloned()
    };
    let ends_after = value("--for").map(IntoDuration::into_duration).transpose();
    let ends_after = ends_after.map_err(|problem| anyhow::anyhow!("--for {problem}"))?;
    let port: u16 = value("--port").map_or(Ok(0), |port| port.parse())?;

    // A namespace of its own, so that this example can run several times at once.
    let namespace = format!("dashboard-{}", Timestamp::now().as_micros());
    let mut workers = Vec::new();
    for number in 1..=WORKERS {
        workers.push(start(number, &namespace, number == 3)?);
    }
    let jobs = jobs::builder().or_embedded().without_jobs().namespace(&namespace).server_id("office");
    let jobs = jobs.start_all().await?;
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    let address = listener.local_addr()?;
    println!("http://{address}/");
    let dashboard = Dashboard::new(jobs.clone())
        .title("Shop")
        .allow_actions(|_, _| true)
        .actor(|_| Some("you".to_owned()));
    let serving = tokio::spawn(jobs::dashboard::serve(listener, dashboard, None));

    let (operating, restarting) = (tokio::spawn(operate(jobs.clone())), restart(&mut workers, &namespace));
    tokio::select! {
        result = restarting => result?,
        _ = tokio::signal::ctrl_c() => {}
        () = async { sleep(ends_after.unwrap_or(Duration::MAX)).await } => {
            operating.await??;
            check(&address.to_string()).await?;
        }
    }
    drop(workers);
    jobs.shutdown().await;
    serving.await??;
    Ok(())
}

/// Killed when it is dropped.
fn start(number: usize, namespace: &str, crashes: bool) -> anyhow::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.env(NUMBER, number.to_string()).env("JOBS_NAMESPACE", namespace);
    if crashes {
        command.env("DASHBOARD_CRASH", "1");
    }
    Ok(command.stdin(Stdio::piped()).kill_on_drop(true).spawn()?)
}

/// Starts a worker again that has crashed, as an orchestrator does.
async fn restart(workers: &mut [Child], namespace: &str) -> anyhow::Result<()> {
    loop {
        sleep(Duration::from_millis(500)).await;
        for (number, worker) in (1..).zip(&mut *workers) {
            if worker.try_wait()?.is_some() {
                *worker = start(number, namespace, false)?;
            }
        }
    }
}

/// What an operator did before you look.
async fn operate(jobs: Jobs) -> anyhow::Result<()> {
    let anna = jobs.by("anna");
    for _ in 0..100 {
        sleep(Duration::from_millis(100)).await;
        if anna
            .pause("refresh-prices")
            .reason("the exchange is closed until Monday")
            .lasting("36h")
            .await
            .is_ok()
        {
            return Ok(());
        }
    }
    bail!("no server has started")
}

/// Every page can be opened, and shows what is expected.
async fn check(address: &str) -> anyhow::Result<()> {
    for (path, expected) in [
        ("overview", "the exchange is closed until Monday"),
        ("job?key=send-invoices", "&lt;billing@example.com&gt;"),
        ("timeline", "web-1"),
        ("servers", "eu-central"),
        ("locks", "cache-warmer"),
        ("audit", "anna"),
        ("api/v1/overview", "\"format\":1"),
    ] {
        let mut page = String::new();
        for _ in 0..100 {
            page = get(address, path).await?;
            if page.contains(expected) {
                break;
            }
            sleep(Duration::from_millis(100)).await;
        }
        ensure!(page.starts_with("HTTP/1.1 200") && page.contains(expected), "{path}: {page}");
        println!("{path:24} {:7} bytes", page.len());
    }
    Ok(())
}

async fn get(address: &str, path: &str) -> anyhow::Result<String> {
    let mut connection = TcpStream::connect(address).await.context("the dashboard")?;
    let request = format!("GET /{path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    connection.write_all(request.as_bytes()).await?;
    let mut page = String::new();
    connection.read_to_string(&mut page).await?;
    Ok(page)
}
