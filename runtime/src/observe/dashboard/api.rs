//! The JSON twins of the pages.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::Shared;
use super::feed::{Depth, Freshness};
use super::pages::PageName;
use super::pages::jobs::JobsPage;
use super::pages::timeline::TimelineRange;
use super::parameters::Parameters;
use crate::OperateError;
use crate::fleet::{Action, DoneWork, HeldLock, JSON_FORMAT, JobOverview, ServerInfo, TickReport};
use crate::history::{RunRecord, SkipRecord};

/// Ticks of a job that are explained.
pub(super) const EXPLAINED_TICKS: usize = 20;

/// Everything, as `jobs.overview()` returns it.
pub(super) async fn overview(State(shared): State<Arc<Shared>>) -> Response {
    match shared.feed.snapshot(Depth::Newest, Freshness::Current).await {
        Ok(snapshot) => answer(StatusCode::OK, &snapshot.overview.to_json()),
        Err(error) => failure(&error),
    }
}

pub(super) async fn twin(shared: &Shared, name: PageName, uri: &Uri) -> Response {
    let parameters = Parameters::parse(uri.query().unwrap_or_default().as_bytes());
    match content(shared, name, &parameters).await {
        Ok(content) => answer(StatusCode::OK, &content),
        Err(error) => failure(&error),
    }
}

async fn content(shared: &Shared, name: PageName, parameters: &Parameters) -> Result<Value, OperateError> {
    let snapshot = shared.feed.snapshot(name.depth(), Freshness::Current).await?;
    let overview = &snapshot.overview;
    let mut content = match name {
        PageName::Jobs => {
            let page = JobsPage::new(overview, parameters);
            json!({
                "jobs": page.shown.iter().map(|job| job.to_json()).collect::<Vec<_>>(),
                "found": page.found,
                "page": page.number,
                "pages": page.pages,
            })
        }
        PageName::Job => {
            let key = parameters.get("key");
            let job = overview.jobs.iter().find(|job| job.key == key);
            let job = job.ok_or_else(|| OperateError::NoSuchJob { key: key.to_owned() })?;
            self::job(shared, job).await?
        }
        PageName::Timeline => json!({
            "timeline": shared.feed.timeline(overview, TimelineRange::of(parameters).span()).to_json(),
            "load": shared.feed.load_map(overview).to_json(),
        }),
        PageName::Servers => json!({ "servers": list(&overview.servers, ServerInfo::to_json) }),
        PageName::Locks => json!({
            "locks": list(&overview.locks, HeldLock::to_json),
            "done": list(&overview.done, DoneWork::to_json),
        }),
        PageName::Audit => json!({ "actions": list(&overview.actions, Action::to_json) }),
    };
    content["format"] = json!(JSON_FORMAT);
    content["at"] = json!(overview.at.to_string());
    content["trouble"] = json!(snapshot.trouble.as_deref());
    Ok(content)
}

async fn job(shared: &Shared, job: &JobOverview) -> Result<Value, OperateError> {
    let ticks = shared.feed.ticks(job).await?;
    Ok(json!({
        "job": job.to_json(),
        "ticks": list(&ticks.newest(EXPLAINED_TICKS), TickReport::to_json),
        "runs": list(&ticks.history().runs, RunRecord::to_json),
        "skips": list(&ticks.history().skips, SkipRecord::to_json),
    }))
}

fn list<T>(items: &[T], to_json: impl Fn(&T) -> Value) -> Vec<Value> {
    items.iter().map(to_json).collect()
}

pub(super) fn answer(status: StatusCode, content: &Value) -> Response {
    (status, [(CONTENT_TYPE, "application/json")], content.to_string()).into_response()
}

fn failure(error: &OperateError) -> Response {
    answer(status_of(error), &json!({ "format": JSON_FORMAT, "error": error.to_string() }))
}

pub(super) fn status_of(error: &OperateError) -> StatusCode {
    match error {
        OperateError::NoSuchJob { .. } => StatusCode::NOT_FOUND,
        OperateError::Invalid { .. } => StatusCode::BAD_REQUEST,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    }
}
