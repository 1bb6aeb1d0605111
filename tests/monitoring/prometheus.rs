//! A real Prometheus on a free loopback port, gone when the test is.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use support::folder::TempFolder;
use support::redis_server::PATIENCE;

/// A file of `runtime/monitoring`.
pub fn monitoring(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("monitoring").join(name)
}

/// A Prometheus with the alert rules. It scrapes and evaluates every second.
pub struct Prometheus {
    process: Child,
    port: u16,
    folder: TempFolder,
}

impl Prometheus {
    /// Starts one that scrapes these addresses.
    pub fn scraping(addresses: &[&str]) -> Self {
        // Another process may take the port between our looking and its start.
        let mut started = (0..5).filter_map(|_| Self::start(addresses));
        started
            .next()
            .expect("prometheus does not start: run `prometheus --version` to see whether it is there")
    }

    fn start(addresses: &[&str]) -> Option<Self> {
        let folder = TempFolder::new();
        let rules = monitoring("alerts.yml");
        let configuration = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: [{}]\n\
             scrape_configs: [{{job_name: jobs, static_configs: [{{targets: {addresses:?}}}]}}]\n",
            rules.display()
        );
        let configuration = folder.put("prometheus.yml", &configuration);
        let socket = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = socket.local_addr().expect("an address").port();
        drop(socket);
        let process = Command::new("prometheus")
            .arg(format!("--config.file={configuration}"))
            .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .stdout(Stdio::null())
            .stderr(File::create(folder.path().join("log")).expect("a log"))
            .spawn()
            .expect("prometheus is installed");
        let mut this = Self { process, port, folder };
        this.is_ready().then_some(this)
    }

    fn is_ready(&mut self) -> bool {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if self.process.try_wait().expect("its state").is_some() {
                let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
                eprintln!("{log}");
                return false;
            }
            if self.get("/-/ready").is_ok_and(|answer| answer.contains(" 200 ")) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        false
    }

    fn get(&self, path: &str) -> std::io::Result<String> {
        let mut connection = TcpStream::connect(("127.0.0.1", self.port))?;
        write!(connection, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer)?;
        Ok(answer)
    }

    fn api(&self, path: &str) -> Value {
        let answer = self.get(path).expect("an answer");
        let (_, body) = answer.split_once("\r\n\r\n").expect("an answer of HTTP");
        let body: Value =
            serde_json::from_str(body).unwrap_or_else(|error| panic!("{path}: {error}: {answer}"));
        assert_eq!(body["status"], "success", "{path}: {body}");
        body["data"].clone()
    }

    /// The series that a query returns now.
    pub fn query(&self, query: &str) -> Vec<Value> {
        let encode = |text: String, byte| text + &format!("%{byte:02x}");
        let encoded = query.bytes().fold(String::new(), encode);
        self.api(&format!("/api/v1/query?query={encoded}"))["result"].as_array().expect("series").clone()
    }

    /// The rules, with the result of their last evaluation.
    pub fn rules(&self) -> Vec<Value> {
        let groups = self.api("/api/v1/rules")["groups"].as_array().expect("groups").clone();
        groups.iter().flat_map(|group| group["rules"].as_array().expect("rules").clone()).collect()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
