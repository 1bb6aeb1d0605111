//! A web service with jobs: shared state, probes, the dashboard under `/jobs`, and a termination within 30 s in which no run
//! starts after SIGTERM and requests and runs in progress finish.
//!
//!     cargo run --example web_service              requests a page, sends itself SIGTERM and ends
//!     cargo run --example web_service -- serve     serves until SIGTERM or ctrl-c

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use jobs::dashboard::Dashboard;
use jobs::{CancellationToken, Jobs, Timestamp, singleton_job};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};

/// The budget of 30 s: requests have 10 s to finish, then runs have 15 s, and 3 s remain for runs that must be cancelled.
const DRAIN: Duration = Duration::from_secs(10);
const SHUTDOWN_GRACE: Duration = Duration::from_secs(15);

/// Stands for the database of the service.
#[derive(Clone, Default)]
pub(crate) struct Products {
    /// How many imports have started.
    started: Arc<AtomicU32>,
    imported: Arc<AtomicU32>,
}

/// Pulls new products from the supplier.
#[singleton_job(key = "import-products", ttl = "10s", every = "1s")]
async fn import_products(jobs::State(products): jobs::State<Products>) {
    products.started.fetch_add(1, Ordering::SeqCst);
    println!("import-products  starts");
    sleep(Duration::from_millis(1500)).await;
    products.imported.fetch_add(1, Ordering::SeqCst);
    println!("import-products  has finished");
}

/// The state of the handlers. A `Jobs` is cheap to clone.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) jobs: Jobs,
    pub(crate) products: Products,
}

async fn list_products(State(app): State<App>) -> String {
    sleep(Duration::from_secs(1)).await; // a slow query
    format!("{} products", app.products.imported.load(Ordering::SeqCst))
}

/// Readiness: whether to send requests here. An unreachable store is no reason not to, since it stops only the jobs.
async fn ready(State(app): State<App>) -> StatusCode {
    if app.jobs.health().is_terminating() { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK }
}

/// Liveness: whether a restart would help.
async fn alive(State(app): State<App>) -> StatusCode {
    if app.jobs.health().is_alive() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}

/// Serves requests until `terminated` resolves, then terminates in three steps.
pub(crate) async fn serve(
    listener: TcpListener,
    app: App,
    terminated: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let jobs = app.jobs.clone();
    let router = Router::new()
        .route("/products", get(list_products))
        .route("/ready", get(ready))
        .route("/alive", get(alive))
        .with_state(app)
        // Read-only, unless actions are allowed. Put it behind the login of your service.
        .nest_service("/jobs", Dashboard::new(jobs.clone()).title("Products").into_router());
    let drain = CancellationToken::new();
    let server = axum::serve(listener, router).with_graceful_shutdown(drain.clone().cancelled_owned());
    let mut serving = tokio::spawn(server.into_future());

    tokio::select! {
        ended = &mut serving => ended.context("the web server has failed")??,
        () = terminated => {}
    }
    jobs.stop_claiming(); // 1. No further run starts here: other servers have more time for it.
    drain.cancel(); // 2. Requests in progress are answered, and idle connections are closed.
    if timeout(DRAIN, serving).await.is_err() {
        eprintln!("some requests took longer than {DRAIN:?}; their connections are cut");
    }
    jobs.shutdown().await; // 3. Runs in progress finish.
    Ok(())
}

/// Resolves on SIGTERM, which orchestrators send, and on ctrl-c.
async fn terminated() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminate = signal(SignalKind::terminate()).expect("a signal handler");
        tokio::select! {
            _ = terminate.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
    }
    #[cfg(not(unix))]
    let _ = tokio::signal::ctrl_c().await;
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let serves_until_signal = std::env::args().nth(1).as_deref() == Some("serve");
    let products = Products::default();
    let mut builder = jobs::builder().or_embedded().state(products.clone()).shutdown_grace(SHUTDOWN_GRACE);
    if !serves_until_signal {
        builder = builder.namespace(format!("web-{}", Timestamp::now().as_micros())); // undisturbed by an earlier run
    }
    let jobs = builder.start_all().await?;
    let app = App { jobs, products: products.clone() };
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    println!("http://{address}/products and http://{address}/jobs");
    if serves_until_signal {
        return serve(listener, app, terminated()).await;
    }

    let demonstration = tokio::spawn(demonstrate(address, products.clone()));
    serve(listener, app, terminated()).await?;
    let started = demonstration.await??;
    ensure!(products.started.load(Ordering::SeqCst) == started, "a run started after SIGTERM");
    ensure!(products.imported.load(Ordering::SeqCst) == started, "a run did not finish");
    println!("the service is down, and no run was lost: {started} of {started} have finished");
    Ok(())
}

/// Sends the signal in the middle of a request and of a run, and returns how many runs had started by then.
async fn demonstrate(address: SocketAddr, products: Products) -> anyhow::Result<u32> {
    while products.started.load(Ordering::SeqCst) < 2 {
        sleep(Duration::from_millis(10)).await;
    }
    let mut connection = TcpStream::connect(address).await?;
    connection.write_all(b"GET /products HTTP/1.1\r\nHost: localhost\r\n\r\n").await?;
    sleep(Duration::from_millis(200)).await;
    println!("SIGTERM          in the middle of a request and of a run");
    let started = products.started.load(Ordering::SeqCst);
    terminate_myself()?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await?; // until the server closes it
    let body = answer.lines().last().unwrap_or_default();
    println!("the request      is answered: {body}");
    ensure!(answer.starts_with("HTTP/1.1 200") && body.ends_with("products"), "{answer}");
    Ok(started)
}

/// What an orchestrator does.
fn terminate_myself() -> anyhow::Result<()> {
    let sent = std::process::Command::new("kill").arg(std::process::id().to_string()).status()?;
    ensure!(sent.success(), "the signal could not be sent");
    Ok(())
}
