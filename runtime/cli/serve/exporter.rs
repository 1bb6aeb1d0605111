//! `jobsctl exporter`: metrics of the whole fleet for Prometheus, from the store.

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use jobs::fleet::{JobOverview, Overview};
use jobs::{Jobs, Timestamp};
use metrics::{Label, counter, describe_counter, describe_gauge, gauge, with_local_recorder};
use metrics_exporter_prometheus::PrometheusBuilder;
use tokio::net::TcpListener;

use crate::args::Exporter;
use crate::failure::{Answer, Failure};

pub(crate) async fn serve(jobs: &Jobs, exporter: &Exporter) -> Result<Answer, Failure> {
    if exporter.once {
        print!("{}", render(&jobs.overview().await?));
        return Ok(Answer::Good);
    }
    let listener = TcpListener::bind(exporter.listen).await;
    let listener = listener
        .map_err(|error| Failure::System(format!("failed to listen on {}: {error}", exporter.listen)))?;
    let address = listener.local_addr().map_err(|error| Failure::System(error.to_string()))?;
    report!("serving http://{address}/metrics; ctrl-c ends");
    let app = Router::new().route("/metrics", get(scrape)).with_state(jobs.clone());
    let end = async { drop(tokio::signal::ctrl_c().await) };
    let served = axum::serve(listener, app).with_graceful_shutdown(end).await;
    served.map_err(|error| Failure::System(error.to_string()))?;
    Ok(Answer::Good)
}

/// Each scrape is one overview. Without the store, `jobs_fleet_store_up` alone says so.
async fn scrape(State(jobs): State<Jobs>) -> Response {
    let page = match jobs.overview().await {
        Ok(overview) => render(&overview),
        Err(error) => {
            report!("failed to read the fleet: {error}");
            render_without_store()
        }
    };
    (StatusCode::OK, [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], page)
        .into_response()
}

fn rendered(report: impl FnOnce()) -> String {
    let recorder = PrometheusBuilder::new().build_recorder();
    with_local_recorder(&recorder, report);
    recorder.handle().render()
}

fn render_without_store() -> String {
    rendered(|| {
        describe_gauge!("jobs_fleet_store_up", "1 if the store answered");
        gauge!("jobs_fleet_store_up").set(0.0);
    })
}

fn render(overview: &Overview) -> String {
    rendered(|| {
        describe();
        gauge!("jobs_fleet_store_up").set(1.0);
        gauge!("jobs_fleet_servers").set(number(overview.servers.len()));
        for server in &overview.servers {
            gauge!("jobs_fleet_clock_offset_seconds", "server" => server.id.clone())
                .set(server.clock_ahead_seconds());
        }
        overview.jobs.iter().for_each(job);
    })
}

fn describe() {
    describe_gauge!("jobs_fleet_store_up", "1 if the store answered");
    describe_gauge!("jobs_fleet_servers", "servers that are alive");
    describe_gauge!(
        "jobs_fleet_clock_offset_seconds",
        "how far the clock of a server is ahead of the store's"
    );
    describe_counter!("jobs_fleet_runs_total", "runs by outcome: succeeded, failed, other");
    describe_gauge!("jobs_fleet_running", "runs in progress");
    describe_gauge!("jobs_fleet_overdue", "1 if a tick should have started and no server has claimed it");
    describe_gauge!("jobs_fleet_paused", "1 if the job is paused");
    describe_gauge!("jobs_fleet_failures_in_row", "failures since the last success");
    describe_gauge!("jobs_fleet_job_servers", "servers that have the job");
    describe_gauge!(
        "jobs_fleet_servers_differ",
        "1 if servers have different schedules or settings for the job"
    );
    describe_gauge!("jobs_fleet_last_success_timestamp_seconds", "end of the last successful run");
    describe_gauge!("jobs_fleet_last_run_duration_seconds", "duration of the newest run that has ended");
    describe_gauge!("jobs_fleet_next_tick_timestamp_seconds", "the next tick; 0 for none");
}

fn job(job: &JobOverview) {
    let labels = || vec![Label::new("job_name", job.key.clone())];
    let flag = |is_so| if is_so { 1.0 } else { 0.0 };
    let stats = &job.stats;
    let other = stats.runs.saturating_sub(stats.successes).saturating_sub(stats.failures);
    for (outcome, count) in [("succeeded", stats.successes), ("failed", stats.failures), ("other", other)] {
        counter!("jobs_fleet_runs_total", "job_name" => job.key.clone(), "outcome" => outcome)
            .absolute(count);
    }
    gauge!("jobs_fleet_running", labels()).set(flag(job.current.is_some()));
    gauge!("jobs_fleet_overdue", labels()).set(flag(job.overdue.is_some()));
    gauge!("jobs_fleet_paused", labels()).set(flag(job.pause.is_some()));
    gauge!("jobs_fleet_failures_in_row", labels()).set(f64::from(stats.failures_in_row));
    gauge!("jobs_fleet_job_servers", labels()).set(number(job.servers.len()));
    gauge!("jobs_fleet_servers_differ", labels()).set(flag(job.variants.len() > 1));
    gauge!("jobs_fleet_next_tick_timestamp_seconds", labels()).set(job.next.map_or(0.0, seconds));
    if let Some(at) = stats.last_success {
        gauge!("jobs_fleet_last_success_timestamp_seconds", labels()).set(seconds(at));
    }
    if let Some(run) = job.runs.first() {
        gauge!("jobs_fleet_last_run_duration_seconds", labels()).set(run.duration().as_secs_f64());
    }
}

#[expect(clippy::cast_precision_loss, reason = "a double holds the microseconds of this century")]
fn seconds(at: Timestamp) -> f64 {
    at.as_micros() as f64 / 1e6
}

#[expect(clippy::cast_precision_loss, reason = "no fleet has so many")]
fn number(count: usize) -> f64 {
    count as f64
}
