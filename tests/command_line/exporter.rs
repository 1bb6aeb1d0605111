//! `jobsctl exporter`: metrics of the whole fleet.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use support::redis_server::RedisServer;

use super::kit::{Fleet, NAMESPACE, program};

/// The program while it serves, killed when the test ends.
pub struct Serving {
    process: Child,
    pub address: String,
}

impl Serving {
    pub fn start(arguments: &[&str]) -> Self {
        let mut process = program(arguments).stderr(Stdio::piped()).spawn().expect("it starts");
        let mut line = String::new();
        let errors = process.stderr.take().expect("it is piped");
        BufReader::new(errors).read_line(&mut line).expect("it says where it listens");
        let address = line.split("http://").nth(1).and_then(|rest| rest.split('/').next());
        let address = address.unwrap_or_else(|| panic!("no address: {line}")).to_owned();
        Self { process, address }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _has_ended = self.process.kill();
        let _has_ended = self.process.wait();
    }
}

/// The whole answer to a request.
pub fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it is sent");
    let mut page = String::new();
    stream.read_to_string(&mut page).expect("it answers");
    page
}

fn scrape(address: &str) -> String {
    let page = get(address, "/metrics");
    assert!(page.starts_with("HTTP/1.1 200"), "{page}");
    page
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exporter_serves_the_whole_fleet_and_says_when_the_store_is_gone() {
    let mut redis = RedisServer::start();
    let fleet = Fleet::start(&redis.url()).await;
    fleet.jobs(&["pause", "quick"]).await;
    let once = fleet.jobs(&["exporter", "--once"]).await.out;
    for line in [
        "jobs_fleet_store_up 1",
        "jobs_fleet_servers 2",
        "jobs_fleet_paused{job_name=\"quick\"} 1",
        "jobs_fleet_running{job_name=\"slow\"} 1",
        "jobs_fleet_job_servers{job_name=\"manual\"} 2",
        "# TYPE jobs_fleet_runs_total counter",
    ] {
        assert!(once.contains(line), "{line} in {once}");
    }
    let failed = "jobs_fleet_runs_total{job_name=\"failing\",outcome=\"failed\"} ";
    let count = once.lines().find_map(|line| line.strip_prefix(failed)).expect("it failed");
    assert!(count.parse::<u64>().is_ok_and(|count| count > 0), "{count}");

    let arguments = ["exporter", "--listen", "127.0.0.1:0", "--url", &redis.url(), "--namespace", NAMESPACE];
    let serving = Serving::start(&arguments);
    let address = serving.address.clone();
    let page = tokio::task::spawn_blocking({
        let address = address.clone();
        move || scrape(&address)
    });
    assert!(page.await.unwrap().contains("jobs_fleet_store_up 1"));
    redis.kill();
    let page = tokio::task::spawn_blocking(move || scrape(&address)).await.unwrap();
    assert!(page.contains("jobs_fleet_store_up 0") && !page.contains("jobs_fleet_running"), "{page}");
    fleet.shut_down().await;
}
