//! The actions of operators. Each is a call of the library.

use std::sync::Arc;
use std::time::Duration;

use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use serde_json::json;
use tokio::time::timeout;

use super::Shared;
use super::access::text;
use super::api::{answer, status_of};
use super::pages::confirm;
use super::parameters::Parameters;
use crate::fleet::{ActionKind, JSON_FORMAT};
use crate::{CancelOutcome, Jobs, OperateError, RunNow};

const LONGEST_FORM: usize = 16 * 1024;

/// How long an answer waits for the result of a manual run, or for the end of a cancelled one. Both happen anyway.
const WAIT: Duration = Duration::from_secs(3);

/// The result of a request for an action, as a sentence for the operator.
pub(super) struct ActionResult {
    pub(super) status: StatusCode,
    pub(super) message: String,
}

impl ActionResult {
    fn refused(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }
}

/// The actions that the dashboard offers.
pub(super) fn offered(name: &str) -> Option<ActionKind> {
    let offered =
        [ActionKind::Run, ActionKind::Cancel, ActionKind::Pause, ActionKind::Resume, ActionKind::Unlock];
    offered.into_iter().find(|kind| kind.as_str() == name)
}

/// The key that an action is about; `None` for all jobs.
pub(super) fn target(kind: ActionKind, parameters: &Parameters) -> Result<Option<&str>, &'static str> {
    let is_for_all = matches!(kind, ActionKind::Pause | ActionKind::Resume);
    match (parameters.get("key"), parameters.get("all")) {
        ("", "") => Err("the key is missing"),
        (key, "") => Ok(Some(key)),
        ("", "true") if is_for_all => Ok(None),
        ("", "true") => Err("only a pause can be set and ended for all jobs"),
        ("", _) => Err("`all` is not `true`"),
        _ => Err("a key is named, and all jobs, too"),
    }
}

/// A form of a page. The script asks for JSON; without it the answer is a page.
pub(super) async fn from_page(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let wants_json =
        text(request.headers(), &axum::http::header::ACCEPT).is_some_and(|kind| kind == "application/json");
    let (parameters, result) = act(&shared, request).await;
    if wants_json {
        return json_of(&result);
    }
    (result.status, confirm::result(&shared, &parameters, &result)).into_response()
}

pub(super) async fn from_program(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (_, result) = act(&shared, request).await;
    json_of(&result)
}

fn json_of(result: &ActionResult) -> Response {
    let name = if result.status.is_success() { "message" } else { "error" };
    let mut content = json!({ "format": JSON_FORMAT });
    content[name] = json!(result.message);
    answer(result.status, &content)
}

async fn act(shared: &Shared, request: Request) -> (Parameters, ActionResult) {
    let (parts, body) = request.into_parts();
    // Before anything of the request is believed.
    if let Err(reason) = shared.access.check_origin(&parts.headers) {
        let refused = ActionResult::refused(StatusCode::FORBIDDEN, reason);
        return (Parameters::default(), refused);
    }
    let kind = text(&parts.headers, &CONTENT_TYPE).unwrap_or_default();
    if kind.split(';').next().map(str::trim) != Some("application/x-www-form-urlencoded") {
        let refused =
            ActionResult::refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, "an action is sent as a form");
        return (Parameters::default(), refused);
    }
    let Ok(body) = to_bytes(body, LONGEST_FORM).await else {
        let refused = ActionResult::refused(StatusCode::PAYLOAD_TOO_LARGE, "the form is too long");
        return (Parameters::default(), refused);
    };
    let parameters = Parameters::parse(&body);
    let result = requested(shared, &parts, &parameters).await;
    (parameters, result)
}

async fn requested(shared: &Shared, parts: &Parts, parameters: &Parameters) -> ActionResult {
    let Some(kind) = offered(parameters.get("action")) else {
        return ActionResult::refused(StatusCode::BAD_REQUEST, "there is no such action");
    };
    let key = match target(kind, parameters) {
        Ok(key) => key,
        Err(reason) => return ActionResult::refused(StatusCode::BAD_REQUEST, reason),
    };
    if !shared.access.allows(parts, kind, key) {
        let named = key.map_or_else(|| "all jobs".to_owned(), |key| format!("\"{key}\""));
        return ActionResult::refused(StatusCode::FORBIDDEN, format!("you may not {kind} {named} here"));
    }
    let jobs = match shared.access.actor(parts) {
        Some(name) => shared.jobs.by(name),
        None => shared.jobs.clone(),
    };
    let done = match key {
        Some(key) => perform(&jobs, kind, key, parameters).await,
        None => perform_on_all(jobs, kind, parameters).await,
    };
    shared.feed.invalidate().await;
    match done {
        Ok(message) => ActionResult { status: StatusCode::OK, message },
        Err(error) => ActionResult::refused(status_of(&error), error.to_string()),
    }
}

async fn perform(
    jobs: &Jobs,
    kind: ActionKind,
    key: &str,
    parameters: &Parameters,
) -> Result<String, OperateError> {
    match kind {
        ActionKind::Run => run(jobs, key).await,
        ActionKind::Cancel => cancel(jobs, key).await,
        ActionKind::Pause => pause(jobs, key, parameters).await,
        ActionKind::Resume => Ok(match jobs.resume(key).await? {
            Some(_) => format!("{key} is resumed."),
            None => format!("{key} was not paused."),
        }),
        _ => Ok(match jobs.break_lock(key).await?.len() {
            0 => format!("{key} was not held."),
            1 => format!("The lock of {key} is broken."),
            held => format!("{held} slots of {key} are broken."),
        }),
    }
}

/// Continues if the request is dropped: a part of the jobs would be paused.
async fn perform_on_all(
    jobs: Jobs,
    kind: ActionKind,
    parameters: &Parameters,
) -> Result<String, OperateError> {
    let (reason, lasting) = (parameters.get("reason").to_owned(), parameters.get("lasting").to_owned());
    let work = tokio::spawn(async move {
        if kind == ActionKind::Resume {
            return Ok(match jobs.resume_all().await?.len() {
                0 => "No job was paused with all jobs.".to_owned(),
                1 => "1 job is resumed.".to_owned(),
                count => format!("{count} jobs are resumed."),
            });
        }
        let mut pausing = jobs.pause_all();
        if !reason.is_empty() {
            pausing = pausing.reason(reason);
        }
        let until =
            if lasting.is_empty() { "they are resumed".to_owned() } else { format!("{lasting} from now") };
        if !lasting.is_empty() {
            pausing = pausing.lasting(lasting);
        }
        Ok(match pausing.await?.len() {
            1 => format!("1 job is paused until {until}."),
            count => format!("All {count} jobs are paused until {until}."),
        })
    });
    work.await.unwrap_or(Err(OperateError::ShuttingDown))
}

async fn run(jobs: &Jobs, key: &str) -> Result<String, OperateError> {
    let (running, name) = (jobs.clone(), key.to_owned());
    let mut running = tokio::spawn(async move { running.run_now(&name).await });
    let Ok(ended) = timeout(WAIT, &mut running).await else {
        return Ok(format!("A run of {key} is requested; it appears here when a server starts it."));
    };
    Ok(match ended.unwrap_or(Err(OperateError::ShuttingDown))? {
        RunNow::Ran(record) => format!("{key} ran on {} and {}.", record.server, record.outcome),
        RunNow::Held(holder) => match holder.server {
            Some(server) => format!("{key} was not started: it is held by {server}."),
            None => format!("{key} was not started: another program holds its lock."),
        },
        RunNow::Busy => format!("{key} was not started: this server is at its limit of concurrent runs."),
        RunNow::NoServer => format!("{key} was not started: no server has it."),
    })
}

async fn cancel(jobs: &Jobs, key: &str) -> Result<String, OperateError> {
    Ok(match jobs.cancel(key).within(WAIT).await? {
        CancelOutcome::NotRunning => format!("{key} was not running."),
        CancelOutcome::Ended(record) => format!("The run of {key} has ended: {}.", record.outcome),
        CancelOutcome::EndedWithoutRecord => format!("The run of {key} has ended."),
        CancelOutcome::StillRunning(run) => {
            format!("{} is asked to cancel the run of {key}, and has not ended it yet.", run.server)
        }
    })
}

async fn pause(jobs: &Jobs, key: &str, parameters: &Parameters) -> Result<String, OperateError> {
    let mut pausing = jobs.pause(key);
    if !parameters.get("reason").is_empty() {
        pausing = pausing.reason(parameters.get("reason"));
    }
    if !parameters.get("lasting").is_empty() {
        pausing = pausing.lasting(parameters.get("lasting"));
    }
    let pause = pausing.await?;
    Ok(match pause.until {
        Some(until) => format!("{key} is paused until {until}."),
        None => format!("{key} is paused until it is resumed."),
    })
}
