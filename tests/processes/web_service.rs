//! A web service that terminates with open connections and a run in progress, as real processes: no run starts after SIGTERM.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use example::{App, Products};
use jobs::history::RunOutcome;
use jobs::{Jobs, Timestamp};
use support::fleet::{Orders, Worker, wait_until};
use support::hand::Hand;
use support::redis_server::RedisServer;
use support::worker;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

/// The example is what is tested.
#[allow(dead_code, reason = "its `main`, and what that alone needs")]
#[path = "../../examples/web_service.rs"]
mod example;

/// Whether this process is a web service of these tests; then it has ended.
pub fn begin() -> bool {
    let is_web_service = worker::setting("ROLE").as_deref() == Some("web service");
    if is_web_service {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        runtime.expect("a runtime").block_on(serve());
    }
    is_web_service
}

/// The child: the example's service with the jobs of every worker.
async fn serve() {
    worker::log_to_parent();
    let jobs = worker::builder().start_all().await.expect("the store is there");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let mut signals = signal(SignalKind::terminate()).expect("a signal handler");
    let terminated = async move {
        signals.recv().await;
        worker::tell(&format!("terminated {}", Timestamp::now().as_micros()));
    };
    worker::tell(&format!("ready {}", listener.local_addr().expect("an address")));
    match worker::setting("ORDER").as_deref() {
        Some("naive") => drain_first(listener, jobs, terminated).await,
        _ => {
            let app = App { jobs, products: Products::default() };
            example::serve(listener, app, terminated).await.expect("it serves");
        }
    }
    worker::tell("down");
}

/// The control: a service that drains its connections, and only then thinks of its jobs.
async fn drain_first(
    listener: TcpListener,
    jobs: Jobs,
    terminated: impl Future<Output = ()> + Send + 'static,
) {
    let slow = axum::routing::get(|| async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        "0 products"
    });
    let router = axum::Router::new().route("/products", slow);
    axum::serve(listener, router).with_graceful_shutdown(terminated).await.expect("it serves");
    jobs.shutdown().await;
}

/// A job that ticks five times a second, and one whose run takes 6 s.
fn start(redis: &RedisServer, order: &str) -> (Worker, String) {
    let orders = Orders::serve(redis).set("WORKER_ROLE", "web service").set("WORKER_ORDER", order);
    let orders = orders.set("WORKER_KEYS", "long,quick").set("WORKER_EVERY_quick", "200ms");
    let orders = orders.set("WORKER_STEPS_long", 60).set("WORKER_TTL", 3000);
    let service = orders.set("WORKER_SHUTDOWN_GRACE", 15_000).start();
    let address = service.wait_for("ready");
    wait_until("a run of each job", || {
        runs(&service, "long", "step") > 0 && runs(&service, "quick", "end") > 2
    });
    (service, address)
}

fn runs(service: &Worker, key: &str, what: &str) -> usize {
    service.steps().iter().filter(|step| step.key == key && step.what == what).count()
}

/// A connection on which this was sent.
fn open(address: &str, sent: &str) -> TcpStream {
    let mut connection = TcpStream::connect(address).expect("it listens");
    connection.write_all(sent.as_bytes()).expect("it reads");
    connection.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
    connection
}

const REQUEST: &str = "GET /products HTTP/1.1\r\nHost: localhost\r\n\r\n";

fn answer(mut connection: TcpStream) -> String {
    let mut answer = String::new();
    connection.read_to_string(&mut answer).expect("an answer, and the end of the connection");
    answer
}

/// The runs that started after the process had seen the signal. A run that was about to start at that instant may be
/// written down a moment later.
fn started_after_the_signal(service: &Worker) -> usize {
    let at: i64 = service.wait_for("terminated").parse().expect("an instant");
    let after = Timestamp::from_micros(at) + Duration::from_millis(50);
    service.steps().iter().filter(|step| step.what == "start" && step.at > after).count()
}

#[test]
fn terminating_service_starts_no_run_and_finishes_requests_and_runs_in_progress() {
    let redis = RedisServer::start();
    let (mut service, address) = start(&redis, "as documented");
    let idle = open(&address, "");
    let slow = open(&address, REQUEST);
    std::thread::sleep(Duration::from_millis(300));
    let asked = Instant::now();
    service.signal("-TERM");
    let answer = answer(slow);
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("products"), "{answer}");
    assert!(service.exit(Duration::from_secs(30)).success());
    println!("gone {:?} after SIGTERM", asked.elapsed());
    service.wait_for("down");
    assert_eq!(started_after_the_signal(&service), 0);
    assert_eq!((runs(&service, "long", "start"), runs(&service, "long", "end")), (1, 1), "it finished");
    assert_eq!(Hand::on(&redis).history_of("long").runs[0].outcome, RunOutcome::Succeeded);
    drop(idle);
}

#[test]
fn connections_that_do_not_end_do_not_keep_a_terminating_service_beyond_thirty_seconds() {
    let redis = RedisServer::start();
    let (mut service, address) = start(&redis, "as documented");
    // Half a request: the server cannot answer it, and cannot know that the rest will never come.
    let half = open(&address, &REQUEST[..20]);
    let asked = Instant::now();
    service.signal("-TERM");
    assert!(service.exit(Duration::from_secs(30)).success());
    println!("gone {:?} after SIGTERM, with a connection that stayed open", asked.elapsed());
    assert_eq!(started_after_the_signal(&service), 0);
    assert_eq!(runs(&service, "long", "end"), 1, "it finished");
    drop(half);
}

#[test]
fn control_a_service_that_drains_its_connections_first_starts_runs_after_the_signal() {
    let redis = RedisServer::start();
    let (mut service, address) = start(&redis, "naive");
    let slow = open(&address, REQUEST);
    std::thread::sleep(Duration::from_millis(300));
    service.signal("-TERM");
    assert!(answer(slow).starts_with("HTTP/1.1 200"));
    assert!(service.exit(Duration::from_secs(30)).success());
    let started = started_after_the_signal(&service);
    println!("{started} runs started after SIGTERM");
    assert!(started >= 2, "{started}");
}
