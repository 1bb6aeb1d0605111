//! Each metric in a simulated fleet, as a Prometheus exporter shows it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use metrics::LocalRecorderGuard;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

use crate::Run;
use crate::job::{Job, JobBuilder};
use crate::testing::Fleet;

mod jobs;
mod panicking;
mod ticks;

/// When a fleet starts.
const NOON: f64 = 1_800_014_400.0;
const HOUR: u64 = 3600;

/// A recorder. The metrics of servers that start while it is installed are on its page.
struct Page(PrometheusHandle);

impl Page {
    fn install() -> (Self, LocalRecorderGuard<'static>) {
        let builder = PrometheusBuilder::new().set_buckets(&[1.0, 60.0]).unwrap();
        let recorder = Box::leak(Box::new(builder.build_recorder()));
        (Self(recorder.handle()), metrics::set_default_local_recorder(recorder))
    }

    /// The value of a series, which is written as on the page; `None` if it is absent.
    fn get(&self, series: &str) -> Option<f64> {
        let page = self.0.render();
        let value = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))?;
        Some(value.parse().expect("a number"))
    }

    fn of_job(&self, name: &str) -> Option<f64> {
        self.get(&format!("{name}{{job_name=\"job\"}}"))
    }

    fn ticks(&self, result: &str) -> Option<f64> {
        self.get(&format!("jobs_ticks_total{{job_name=\"job\",result=\"{result}\"}}"))
    }

    /// The number and the sum of the durations of runs with this outcome.
    fn durations(&self, outcome: &str) -> (Option<f64>, Option<f64>) {
        let of = |part| {
            self.get(&format!("jobs_run_duration_seconds_{part}{{job_name=\"job\",outcome=\"{outcome}\"}}"))
        };
        (of("count"), of("sum"))
    }

    fn store(&self, part: &str, operation: &str) -> Option<f64> {
        self.get(&format!("jobs_store_seconds_{part}{{operation=\"{operation}\"}}"))
    }
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn hourly() -> JobBuilder {
    Job::builder("job").every("1h").ttl("30s")
}

/// A job whose runs take this many seconds.
fn lasting(seconds: u64) -> Job {
    hourly().run(move |_| tokio::time::sleep(secs(seconds))).build().unwrap()
}

fn hour(run: &Run) -> u64 {
    (run.tick().unwrap().as_micros().unsigned_abs() / 1_000_000 - 1_800_014_400) / HOUR
}

#[tokio::test(start_paused = true)]
async fn every_request_to_the_store_is_timed_by_its_operation() {
    let (page, _recorder) = Page::install();
    let fleet = Fleet::of(1).job(|| lasting(25)).start().await.unwrap();
    let requests = |operation| (page.store("count", operation), page.store("sum", operation));
    fleet.run_for(secs(30)).await;
    let operations = ["announce", "claim", "extend", "pause", "release"];
    let before = operations.map(requests);
    fleet.server(0).set_latency(Duration::from_millis(500));
    fleet.run_for(secs(HOUR + 60)).await;
    fleet.server(0).pause("job").await.unwrap();
    for (operation, before) in operations.into_iter().zip(before) {
        let after = requests(operation);
        let count = after.0.unwrap() - before.0.unwrap_or_default();
        let sum = after.1.unwrap() - before.1.unwrap_or_default();
        assert!(count >= 1.0, "{operation}");
        assert!((sum - count / 2.0).abs() < 0.01 * count, "{operation}: {sum} s for {count} requests");
    }
    let claims = page.store("count", "claim").unwrap();
    assert_eq!(Some(claims), before[1].0.map(|before| before + 2.0), "a look and a swap");
    fleet.server(0).cut_off(true);
    fleet.run_for(secs(HOUR)).await;
    assert!(page.store("count", "claim").unwrap() > claims, "requests that fail are counted, too");
}

#[tokio::test(start_paused = true)]
async fn clock_offset_is_how_far_the_clock_is_ahead_of_the_stores() {
    for millis in [2500_i32, -2500] {
        let (page, _recorder) = Page::install();
        let fleet = Fleet::of(1).clock_off_by(0, millis.into()).job(|| lasting(5)).start().await.unwrap();
        fleet.run_for(secs(60)).await;
        let offset = page.get("jobs_clock_offset_seconds").unwrap();
        assert!((offset - f64::from(millis) / 1000.0).abs() < 0.01, "{offset}");
    }
}

/// The keys of locks are made from ids: as labels they would grow without limit.
#[tokio::test(start_paused = true)]
async fn key_of_a_lock_is_never_a_label() {
    let (page, _recorder) = Page::install();
    let fleet = Fleet::of(2).job(|| lasting(5)).start().await.unwrap();
    let server = fleet.server(0);
    let kept = server.lock("payment:1").ttl("10s").acquire().await.unwrap();
    let lost = server.lock("payment:2").ttl("10s").acquire().await.unwrap();
    let slot = server.semaphore("payment:3", 2).acquire().await.unwrap();
    server.once("payment:4").run(async |_| Ok::<_, std::io::Error>(())).await.unwrap();
    fleet.server(1).break_lock("payment:3").await.unwrap();
    assert!(fleet.server(1).lock("payment:1").try_acquire().await.unwrap().is_none());
    kept.release().await.unwrap();
    fleet.run_for(secs(HOUR + 60)).await;
    server.cut_off(true);
    fleet.run_for(secs(60)).await;
    assert!(lost.is_lost() && slot.is_lost());
    let page = page.0.render();
    assert!(!page.contains("payment"), "{page}");
    let names: BTreeSet<_> =
        page.split("job_name=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert_eq!(names, BTreeSet::from(["job"]));
}

#[tokio::test(start_paused = true)]
async fn all_metrics_have_their_names_types_labels_and_descriptions() {
    let (page, _recorder) = Page::install();
    let fleet = Fleet::of(1).job(|| lasting(5)).start().await.unwrap();
    fleet.run_for(secs(2 * HOUR)).await;
    let page = page.0.render();
    let described: BTreeSet<_> =
        page.lines().filter_map(|line| line.strip_prefix("# HELP ")?.split(' ').next()).collect();
    let mut found = BTreeMap::new();
    for (name, kind) in page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')) {
        let of_it = |line: &&str| line.starts_with(name) && line.contains(' ');
        let labels: BTreeSet<_> = page
            .lines()
            .filter(of_it)
            .filter_map(|line| line.split_once('{')?.1.rsplit_once('}'))
            .flat_map(|(labels, _)| labels.split(',').filter_map(|label| label.split('=').next()))
            .filter(|label| *label != "le")
            .collect();
        found.insert(name, (kind, labels.into_iter().collect::<Vec<_>>()));
        assert!(described.contains(name), "{name} has no description");
    }
    let job = vec!["job_name"];
    let expected = BTreeMap::from([
        ("jobs_ticks_total", ("counter", vec!["job_name", "result"])),
        ("jobs_run_duration_seconds", ("histogram", vec!["job_name", "outcome"])),
        ("jobs_start_delay_seconds", ("histogram", job.clone())),
        ("jobs_running", ("gauge", job.clone())),
        ("jobs_last_success_timestamp_seconds", ("gauge", job.clone())),
        ("jobs_next_tick_timestamp_seconds", ("gauge", job.clone())),
        ("jobs_overdue", ("gauge", job.clone())),
        ("jobs_paused", ("gauge", job.clone())),
        ("jobs_lease_lost_total", ("counter", job)),
        ("jobs_store_seconds", ("histogram", vec!["operation"])),
        ("jobs_clock_offset_seconds", ("gauge", vec![])),
    ]);
    assert_eq!(found, expected);
}
