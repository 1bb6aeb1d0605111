//! Alert rules and dashboard, with a real Prometheus that scrapes servers of the example `metrics`.
#![cfg(unix)]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use example::ServerProcess;
use prometheus::{Prometheus, monitoring};
use serde_json::Value;
use support::folder::TempFolder;

/// The example is what is tested.
#[allow(dead_code, reason = "its `main`, and what that alone needs")]
#[path = "../../examples/metrics.rs"]
mod example;
mod prometheus;

/// The variable that makes this program a server of the example.
const IS_SERVER: &str = "MONITORING_SERVER";

const PATIENCE: Duration = Duration::from_secs(60);

/// Also where the server processes begin.
#[test]
fn server_process_serves_its_metrics() {
    if std::env::var_os(IS_SERVER).is_some() {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        return runtime.block_on(example::serve()).expect("it serves");
    }
    let page = start_server(&TempFolder::new()).page().expect("its page");
    assert!(page.contains("\njobs_running{job_name=\"import-products\"} "), "{page}");
}

fn start_server(store: &TempFolder) -> ServerProcess {
    let mut program = Command::new(std::env::current_exe().expect("this program"));
    program.args(["server_process_serves_its_metrics", "--exact", "--nocapture"]);
    ServerProcess::start(program.env(IS_SERVER, "1").env("JOBS_URL", url(store))).expect("a server")
}

fn url(store: &TempFolder) -> String {
    format!("file://{}", store.path().display())
}

/// Pauses a job, once a server has claimed one of its ticks.
async fn pause(store: &TempFolder, key: &str) {
    let jobs = jobs::connect(url(store)).await.expect("the store");
    let begun = Instant::now();
    while let Err(error) = jobs.pause(key).await {
        assert!(begun.elapsed() < PATIENCE, "{error}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    jobs.shutdown().await;
}

fn dashboard(name: &str) -> Value {
    let text = std::fs::read_to_string(monitoring(name)).expect("the dashboard");
    serde_json::from_str(&text).expect("JSON")
}

/// `jobsctl exporter`, killed when the test ends.
struct Exporter {
    process: Child,
    address: String,
}

impl Exporter {
    fn start(store: &TempFolder) -> Self {
        let mut program = Command::new(env!("CARGO_BIN_EXE_jobsctl"));
        program.args(["exporter", "--listen", "127.0.0.1:0", "--url", &url(store)]).stderr(Stdio::piped());
        let mut process = program.spawn().expect("the program `jobsctl`");
        let mut line = String::new();
        let errors = process.stderr.take().expect("it is piped");
        BufReader::new(errors).read_line(&mut line).expect("it says where it listens");
        let address = line.split("http://").nth(1).and_then(|rest| rest.split('/').next());
        let address = address.unwrap_or_else(|| panic!("no address: {line}")).to_owned();
        Self { process, address }
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        let _has_ended = self.process.kill();
        let _has_ended = self.process.wait();
    }
}

/// The title of each panel with each of its queries, as Grafana sends them with all jobs selected.
fn queries(dashboard: &Value) -> Vec<(String, String)> {
    let mut queries = Vec::new();
    for panel in dashboard["panels"].as_array().expect("panels") {
        let title = panel["title"].as_str().expect("a title");
        for target in panel["targets"].as_array().expect("queries") {
            let query = target["expr"].as_str().expect("a query");
            let query = query.replace("$__rate_interval", "15s").replace("$job_name", ".*");
            assert!(!query.contains('$'), "a variable that this test does not know: {query}");
            queries.push((title.to_owned(), query));
        }
    }
    queries
}

#[tokio::test(flavor = "multi_thread")]
async fn every_query_of_the_dashboard_returns_data() {
    let store = TempFolder::new();
    let queries = [queries(&dashboard("dashboard.json")), queries(&dashboard("fleet.json"))].concat();
    assert!(queries.len() >= 20, "{queries:?}");
    let servers = [start_server(&store), start_server(&store)];
    let exporter = Exporter::start(&store);
    let addresses = [&*servers[0].address, &servers[1].address, &exporter.address];
    let prometheus = Prometheus::scraping(&addresses);
    pause(&store, "clean-up").await;
    let begun = Instant::now();
    let mut without_data = queries;
    while !without_data.is_empty() && begun.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(500));
        without_data.retain(|(_, query)| prometheus.query(query).is_empty());
    }
    assert!(without_data.is_empty(), "no data for {without_data:#?}");
    println!("data for all queries after {:?}", begun.elapsed());

    let problems = &dashboard("dashboard.json")["panels"][0]["targets"][0]["expr"]
        .as_str()
        .expect("a query")
        .replace("$job_name", ".*");
    let mut found = BTreeSet::new();
    while found.len() < 2 && begun.elapsed() < PATIENCE {
        let problem = |series: &Value| (label(series, "job_name"), label(series, "problem"));
        found = prometheus.query(problems).iter().map(problem).collect();
        std::thread::sleep(Duration::from_millis(500));
    }
    let expected = [("clean-up", "paused"), ("send-reports", "failed in the last hour")];
    assert_eq!(found, expected.map(|(job, problem)| (job.to_owned(), problem.to_owned())).into());

    // The control: a metric that no server has.
    assert!(prometheus.query("sum by (result) (rate(jobs_tick_total[15s]))").is_empty());
    // The rules are loaded, and each of them can be evaluated on these metrics.
    while let Some(not_ok) = prometheus.rules().iter().find(|rule| rule["health"] != "ok") {
        assert!(begun.elapsed() < PATIENCE && not_ok["health"] == "unknown", "{not_ok}");
        std::thread::sleep(Duration::from_millis(500));
    }
    assert_eq!(prometheus.rules().len(), 13);
    let mut failing = Vec::new();
    while failing.is_empty() && begun.elapsed() < PATIENCE {
        let firing = prometheus.query("ALERTS{alertname=\"JobFailing\",alertstate=\"firing\"}");
        failing = firing.iter().map(|series| label(series, "job_name")).collect();
        std::thread::sleep(Duration::from_millis(500));
    }
    assert_eq!(failing, ["send-reports"], "it fires for the job that fails, and for no other");
}

fn label(series: &Value, name: &str) -> String {
    series["metric"][name].as_str().unwrap_or_default().to_owned()
}

/// Every metric that operating.md lists.
#[test]
fn every_documented_metric_is_on_the_dashboard_or_in_an_alert() {
    let read = |path: &str| std::fs::read_to_string(monitoring(path)).expect(path);
    let shown = read("dashboard.json") + &read("fleet.json") + &read("alerts.yml");
    let page = read("../src/docs/operating.md");
    let documented: Vec<_> =
        page.lines().filter_map(|line| line.strip_prefix("| `jobs_")?.split('`').next()).collect();
    assert_eq!(documented.len(), 11, "{documented:?}");
    for name in documented {
        assert!(shown.contains(&format!("jobs_{name}")), "jobs_{name}");
    }
}

/// Runs the tests of the alert rules, after the rules were changed so.
fn test_rules(change: impl Fn(String) -> String) -> (bool, String) {
    let folder = TempFolder::new();
    for (name, is_changed) in [("alerts.yml", true), ("alerts_test.yml", false)] {
        let text = std::fs::read_to_string(monitoring(name)).expect(name);
        folder.put(name, &if is_changed { change(text) } else { text });
    }
    let tests = folder.path().join("alerts_test.yml");
    let output = Command::new("promtool").args(["test", "rules"]).arg(tests).output().expect("promtool");
    (output.status.success(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

#[test]
fn alert_rules_pass_their_tests() {
    let (passed, output) = test_rules(|rules| rules);
    assert!(passed, "{output}");
}

/// The control: rules with a mistake each.
#[test]
fn tests_of_the_alert_rules_notice_every_mistake() {
    const MISTAKES: [(&str, &str, &str); 3] = [
        ("JobOverdue", "min by (job_name) (jobs_overdue) == 1", "max by (job_name) (jobs_overdue) == 1"),
        ("JobDidNotRun", "max_over_time(jobs_running[1h])", "max_over_time(jobs_runs[1h])"),
        ("FleetStoreUnavailable", "max(jobs_fleet_store_up) == 0", "min(jobs_fleet_store_up) == 1"),
    ];
    let (passed, output) = test_rules(|rules| {
        MISTAKES.iter().fold(rules, |rules, (_, rule, mistake)| {
            assert!(rules.contains(rule), "{rule}");
            rules.replace(rule, mistake)
        })
    });
    assert!(!passed, "{output}");
    for (alert, ..) in MISTAKES {
        assert!(output.contains(&format!("alertname: {alert}")), "{alert}: {output}");
    }
}
