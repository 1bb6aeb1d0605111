//! The pages: which there are, and what they have in common.

use std::cell::RefCell;

use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};

use super::Shared;
use super::api::status_of;
use super::feed::{Depth, Freshness, Snapshot};
use super::live::seen;
use super::parameters::{Parameters, address};
use crate::fleet::{ActionKind, Overview};
use crate::{OperateError, Timestamp};

mod audit;
pub(super) mod confirm;
mod history;
mod job;
pub(super) mod jobs;
mod layout;
mod locks;
mod servers;
pub(super) mod timeline;
mod widgets;

/// A page, and its JSON twin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageName {
    Jobs,
    Job,
    Timeline,
    Servers,
    Locks,
    Audit,
}

impl PageName {
    pub(super) const ALL: [Self; 6] =
        [Self::Jobs, Self::Job, Self::Timeline, Self::Servers, Self::Locks, Self::Audit];

    pub(super) fn of(path: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|name| name.path() == path)
    }

    pub(super) fn path(self) -> &'static str {
        match self {
            Self::Jobs => "overview",
            _ => self.api_path(),
        }
    }

    pub(super) fn api_path(self) -> &'static str {
        match self {
            Self::Jobs => "jobs",
            Self::Job => "job",
            Self::Timeline => "timeline",
            Self::Servers => "servers",
            Self::Locks => "locks",
            Self::Audit => "audit",
        }
    }

    pub(super) fn depth(self) -> Depth {
        if self == Self::Timeline { Depth::All } else { Depth::Newest }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Jobs => "Jobs",
            Self::Job => "Job",
            Self::Timeline => "Timeline",
            Self::Servers => "Servers",
            Self::Locks => "Locks",
            Self::Audit => "Audit",
        }
    }
}

/// A part of a page that is replaced when it changes. Its element has this id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LivePart {
    pub(super) id: String,
    pub(super) html: String,
}

/// The content of a page.
pub(super) struct Rendered {
    pub(super) status: StatusCode,
    pub(super) title: String,
    pub(super) at: Timestamp,
    pub(super) main: Markup,
    pub(super) live: Vec<LivePart>,
}

/// What a page is made of: the fleet, and who looks at it.
struct View<'a> {
    shared: &'a Shared,
    request: &'a Parts,
    parameters: &'a Parameters,
    overview: &'a Overview,
    live: RefCell<Vec<LivePart>>,
}

impl View<'_> {
    /// Makes an element a live part. It must not contain another one, nor anything that a viewer types into.
    fn live(&self, id: impl Into<String>, element: Markup) -> Markup {
        self.live.borrow_mut().push(LivePart { id: id.into(), html: element.0.clone() });
        element
    }

    fn now(&self) -> Timestamp {
        self.overview.at
    }

    /// A button for an action: a link to its confirmation, which the script shows as a dialog.
    fn button(&self, kind: ActionKind, key: &str, label: &str) -> Markup {
        self.button_for(kind, Some(key), label)
    }

    /// A button for an action on all jobs.
    fn button_for_all(&self, kind: ActionKind, label: &str) -> Markup {
        self.button_for(kind, None, label)
    }

    fn button_for(&self, kind: ActionKind, key: Option<&str>, label: &str) -> Markup {
        if !self.shared.access.allows(self.request, kind, key) {
            let why = if self.shared.access.allow.is_some() {
                "You may not do this."
            } else {
                "This dashboard is read-only."
            };
            return html! { button class="action" type="button" disabled title=(why) { (label) } };
        }
        let target = match key {
            Some(key) => address("confirm", &[("action", kind.as_str()), ("key", key)]),
            None => address("confirm", &[("action", kind.as_str()), ("all", "true")]),
        };
        html! { a class=(format!("action {kind}")) href=(target) data-confirm { (label) } }
    }
}

/// Answers with a page.
pub(super) async fn respond(shared: &Shared, name: PageName, request: &Parts) -> Response {
    let parameters = Parameters::parse(request.uri.query().unwrap_or_default().as_bytes());
    let rendered = render(shared, name, (&parameters, request), Freshness::Recent).await;
    let query = request.uri.query().unwrap_or_default();
    let events = address("events", &[("page", name.path()), ("seen", &seen(&rendered.live))]);
    let events = if query.is_empty() { events } else { format!("{events}&{query}") };
    (rendered.status, layout::page(&shared.title, Some(name), &rendered, Some(&events))).into_response()
}

/// Renders the content of a page, with its live parts.
pub(super) async fn render(
    shared: &Shared,
    name: PageName,
    viewer: (&Parameters, &Parts),
    freshness: Freshness,
) -> Rendered {
    match shared.feed.snapshot(name.depth(), freshness).await {
        Ok(snapshot) => render_snapshot(shared, name, viewer, &snapshot).await,
        Err(error) => failure(&error),
    }
}

async fn render_snapshot(
    shared: &Shared,
    name: PageName,
    (parameters, request): (&Parameters, &Parts),
    snapshot: &Snapshot,
) -> Rendered {
    let overview = &*snapshot.overview;
    let key = parameters.get("key");
    let ticks = match overview.jobs.iter().find(|job| name == PageName::Job && job.key == key) {
        Some(job) => match shared.feed.ticks(job).await {
            Ok(ticks) => Some((job, ticks)),
            Err(error) => return failure(&error),
        },
        None if name == PageName::Job => {
            return failure(&OperateError::NoSuchJob { key: key.to_owned() });
        }
        None => None,
    };
    let timeline = (name == PageName::Timeline).then(|| {
        let span = timeline::TimelineRange::of(parameters).span();
        (shared.feed.timeline(&snapshot.overview, span), shared.feed.load_map(overview))
    });
    let view = View { shared, request, parameters, overview, live: RefCell::default() };
    let problems = overview.jobs.iter().filter(|job| !job.alerts().is_empty()).count();
    let title = ticks.as_ref().map_or(name.title(), |(job, _)| &job.key);
    let title = if problems > 0 { format!("({problems}) {title}") } else { title.to_owned() };
    view.live("title", layout::title_element(&title, &shared.title));
    let trouble = view.live("trouble", layout::trouble(&view, snapshot.trouble.as_deref()));
    let content = match (&ticks, &timeline) {
        (Some((job, ticks)), _) => job::page(&view, job, ticks),
        (_, Some((timeline, load))) => timeline::page(&view, timeline, load),
        _ => match name {
            PageName::Servers => servers::page(&view),
            PageName::Locks => locks::page(&view),
            PageName::Audit => audit::page(&view),
            _ => jobs::page(&view),
        },
    };
    let main = html! { (trouble) (content) };
    Rendered { status: StatusCode::OK, title, at: overview.at, main, live: view.live.into_inner() }
}

/// A page that says why there is no other one.
fn failure(error: &OperateError) -> Rendered {
    let html = html! {
        div id="failure" class="banner bad" role="alert" { p { (error) } }
    };
    let live = vec![LivePart { id: "failure".to_owned(), html: html.0.clone() }];
    let main = html! { h1 { "Nothing to show" } (html) p { a href="overview" { "All jobs" } } };
    Rendered { status: status_of(error), title: "Error".to_owned(), at: Timestamp::now(), main, live }
}
