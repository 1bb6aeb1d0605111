//! A small fleet, and the program `jobsctl` to look at it.

use std::process::{Command, Output, Stdio};
use std::time::Duration;

use jobs::{Builder, Job, Jobs, Run};
use serde_json::Value;
use tokio::time::{Instant, sleep};

pub const NAMESPACE: &str = "cli";

/// What the program printed, and its exit code.
#[derive(Debug)]
pub struct Printed {
    pub out: String,
    pub errors: String,
    pub code: i32,
}

impl Printed {
    fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        let code = output.status.code().expect("it was not killed");
        Self { out: text(output.stdout), errors: text(output.stderr), code }
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        let document: Value =
            serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error} in {self:?}"));
        assert_eq!(document["format"], 1, "{document}");
        document
    }
}

/// The program with these arguments, without the variables that would configure it.
pub fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_jobsctl"));
    command.args(arguments).stdin(Stdio::null());
    for name in ["JOBS_URL", "REDIS_URL", "JOBS_NAMESPACE", "NO_COLOR", "CLICOLOR_FORCE"] {
        command.env_remove(name);
    }
    command
}

/// Runs the program to its end, beside the servers of this process.
pub async fn run(arguments: &[&str]) -> Printed {
    let mut command = program(arguments);
    let ended = tokio::task::spawn_blocking(move || command.output().expect("the program starts"));
    Printed::of(ended.await.expect("it was waited for"))
}

/// Two servers on a store, with a quick, a failing, a slow and a manual job.
pub struct Fleet {
    pub url: String,
    pub servers: [Jobs; 2],
}

impl Fleet {
    pub async fn start(url: &str) -> Self {
        let servers = [server(url, "web-1").await, server(url, "web-2").await];
        let fleet = Self { url: url.to_owned(), servers };
        let has_run = |document: &Value, key| job(document, key)["stats"]["runs"] != 0;
        let runs = |document: &Value, key| job(document, key)["current"] != Value::Null;
        let is_busy = |document: &Value| {
            has_run(document, "quick") && has_run(document, "failing") && runs(document, "slow")
        };
        fleet.until(&["list"], is_busy).await;
        fleet
    }

    /// Runs a command for this fleet, in the name of anna.
    pub async fn jobs(&self, arguments: &[&str]) -> Printed {
        let common = ["--url", &self.url, "--namespace", NAMESPACE, "--by", "anna"];
        run(&[arguments, &common].concat()).await
    }

    /// Runs a command for its JSON.
    pub async fn json(&self, arguments: &[&str]) -> Value {
        self.jobs(&[arguments, &["--json"]].concat()).await.json()
    }

    /// Repeats a command until its JSON is as expected.
    pub async fn until(&self, arguments: &[&str], is_expected: impl Fn(&Value) -> bool) -> Value {
        let begun = Instant::now();
        loop {
            let document = self.json(arguments).await;
            if is_expected(&document) {
                return document;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "{arguments:?}: {document:#}");
            sleep(Duration::from_millis(100)).await;
        }
    }

    pub async fn shut_down(self) {
        for server in self.servers {
            server.shutdown().await;
        }
    }
}

pub fn builder(url: &str) -> Builder {
    jobs::builder().without_annotated().namespace(NAMESPACE).url(url).shutdown_grace("1s")
}

async fn server(url: &str, name: &str) -> Jobs {
    let quick = Job::builder("quick").every("1s").description("Does next to nothing.").run(|_| async {});
    let failing = Job::builder("failing").every("1s").run(|_| async { Err::<(), _>("the supplier is down") });
    let slow = Job::builder("slow").every("1s").ttl("3s").run(|run: Run| async move {
        run.set_progress(3, 10);
        run.set_status("row 3");
        sleep(Duration::from_secs(300)).await;
    });
    let manual = Job::builder("manual").run(|_| async {});
    let jobs = [quick.build(), failing.build(), slow.build(), manual.build()].map(|job| job.expect("a job"));
    let builder = builder(url).server_id(name).version("1.4").label("zone", "eu").jobs(jobs);
    builder.start_all().await.expect("the server starts")
}

/// The job with this key in the output of `list`.
#[track_caller]
pub fn job<'a>(document: &'a Value, key: &str) -> &'a Value {
    let jobs = document["jobs"].as_array().expect("jobs");
    jobs.iter().find(|job| job["key"] == key).unwrap_or_else(|| panic!("no {key} in {document:#}"))
}
