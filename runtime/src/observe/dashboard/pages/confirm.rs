//! The confirmation of an action, and its result. The script shows both in the page that they were reached from.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use maud::{Markup, html};

use super::{Rendered, layout};
use crate::Timestamp;
use crate::fleet::ActionKind;
use crate::observe::dashboard::Shared;
use crate::observe::dashboard::actions::{ActionResult, offered, target};
use crate::observe::dashboard::parameters::{Parameters, address};

pub(in crate::observe::dashboard) async fn page(
    State(shared): State<Arc<Shared>>,
    request: Request,
) -> Response {
    let (parts, _body) = request.into_parts();
    let parameters = Parameters::parse(parts.uri.query().unwrap_or_default().as_bytes());
    let kind = offered(parameters.get("action"));
    let (status, main) = match kind.map(|kind| (kind, target(kind, &parameters))) {
        None => (StatusCode::NOT_FOUND, html! { h1 { "There is no such action" } }),
        Some((_, Err(reason))) => (StatusCode::BAD_REQUEST, html! { h1 { "Not possible" } p { (reason) } }),
        Some((kind, Ok(key))) if !shared.access.allows(&parts, kind, key) => (
            StatusCode::FORBIDDEN,
            html! { h1 { "Not allowed" } p { "You may not " (kind) " " b { (key.unwrap_or("all jobs")) } " here." } },
        ),
        Some((kind, Ok(key))) => (StatusCode::OK, form(kind, key)),
    };
    let main = html! { div class="confirm" { (main) p { (back(parameters.get("key"))) } } };
    (status, whole(&shared, status, "Confirm", main)).into_response()
}

fn form(kind: ActionKind, key: Option<&str>) -> Markup {
    let (title, explanation, label) = explained(kind, key.is_none());
    html! {
        form method="post" action="action" {
            h1 { (title) }
            @if let Some(key) = key { p class="key" { code { (key) } } }
            p { (explanation) }
            input type="hidden" name="action" value=(kind);
            @match key {
                Some(key) => { input type="hidden" name="key" value=(key); },
                None => { input type="hidden" name="all" value="true"; },
            }
            @if kind == ActionKind::Pause {
                label { "Reason" input type="text" name="reason" maxlength="500" autocomplete="off"; }
                label { "For how long, such as 2h; empty: until it is resumed" input type="text" name="lasting" maxlength="40" autocomplete="off"; }
            }
            p class="buttons" {
                button type="submit" class=(format!("action {kind} primary")) { (label) }
            }
        }
    }
}

/// The title, what the action does, and the text of its button.
fn explained(kind: ActionKind, is_for_all: bool) -> (&'static str, &'static str, &'static str) {
    match kind {
        ActionKind::Pause if is_for_all => (
            "Pause all jobs",
            "Servers skip the ticks of all jobs, also of jobs that are deployed meanwhile. Current runs continue, and manual \
             runs can start. A job that is paused alone keeps its own pause.",
            "Pause all",
        ),
        ActionKind::Resume if is_for_all => (
            "Resume all jobs",
            "Servers run ticks again. Ticks of the pause do not run. Jobs that were paused alone stay paused.",
            "Resume all",
        ),
        ActionKind::Run => (
            "Run now",
            "Runs the job now, under its lock and next to no other run. No tick is used up.",
            "Run now",
        ),
        ActionKind::Cancel => (
            "Cancel the run",
            "Asks the server that runs the job to cancel the run. Its tick is over: no other server takes it up.",
            "Cancel the run",
        ),
        ActionKind::Pause => (
            "Pause",
            "Servers skip the job’s ticks. The current run continues, and manual runs can start.",
            "Pause",
        ),
        ActionKind::Resume => {
            ("Resume", "Servers run the job’s ticks again. Ticks of the pause do not run.", "Resume")
        }
        _ => (
            "Unlock",
            "Frees the key at once. Its holder works on until it notices, next to a successor. Prefer to cancel a run.",
            "Unlock",
        ),
    }
}

/// The page after an action, if the script is not there to show its result.
pub(in crate::observe::dashboard) fn result(
    shared: &Shared,
    parameters: &Parameters,
    result: &ActionResult,
) -> Html<String> {
    let class = if result.status.is_success() { "banner ok" } else { "banner bad" };
    let main = html! {
        div class="confirm" {
            h1 { @if result.status.is_success() { "Done" } @else { "Refused" } }
            p class=(class) role="status" { (result.message) }
            p { (back(parameters.get("key"))) }
        }
    };
    whole(shared, result.status, "Result", main)
}

fn back(key: &str) -> Markup {
    html! {
        @if !key.is_empty() { a href=(address("job", &[("key", key)])) { "To the job" } " · " }
        a href="overview" { "All jobs" } " · " a href="locks" { "Locks" }
    }
}

fn whole(shared: &Shared, status: StatusCode, title: &str, main: Markup) -> Html<String> {
    let content = Rendered { status, title: title.to_owned(), at: Timestamp::now(), main, live: Vec::new() };
    layout::page(&shared.title, None, &content, None)
}
