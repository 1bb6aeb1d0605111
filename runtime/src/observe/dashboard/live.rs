//! Live updates: server-sent events with the parts of a page that have changed.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::HeaderName;
use axum::http::request::Parts;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_core::Stream;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::Shared;
use super::access::text;
use super::feed::{Freshness, POLL};
use super::pages::{LivePart, PageName, Rendered, render};
use super::parameters::Parameters;

/// A viewer that does not read waits in the network's buffers and here; then its page waits.
const BEHIND: usize = 4;

const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The events of one viewer.
struct Viewer(mpsc::Receiver<Event>);

impl Stream for Viewer {
    type Item = Result<Event, std::convert::Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context).map(|event| event.map(Ok))
    }
}

/// Sends what changes on the page that the query names.
pub(super) async fn events(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (parts, _body) = request.into_parts();
    let parameters = Parameters::parse(parts.uri.query().unwrap_or_default().as_bytes());
    let Some(page) = PageName::of(parameters.get("page")) else {
        return (StatusCode::NOT_FOUND, "there is no such page\n").into_response();
    };
    // A browser that connects again sends the id of the last event.
    let last = text(&parts.headers, &HeaderName::from_static("last-event-id"));
    let seen = last.unwrap_or(parameters.get("seen")).to_owned();
    let (sender, receiver) = mpsc::channel(BEHIND);
    let watching = Watch { shared, page, parts, parameters, shown: Vec::new(), seen };
    tokio::spawn(watching.send_changes(sender));
    Sse::new(Viewer(receiver)).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response()
}

/// The page of one viewer.
struct Watch {
    shared: Arc<Shared>,
    page: PageName,
    parts: Parts,
    parameters: Parameters,
    /// The ids of the parts that the viewer has, and the hashes of their content.
    shown: Vec<(String, u64)>,
    /// The hash of everything that the viewer has.
    seen: String,
}

impl Watch {
    /// Ends with the viewer, and with the server: an open connection would keep a web server from stopping.
    async fn send_changes(mut self, sender: mpsc::Sender<Event>) {
        while !self.shared.jobs.health().is_terminating() {
            let rendered =
                render(&self.shared, self.page, (&self.parameters, &self.parts), Freshness::Current).await;
            if let Some(event) = self.change(&rendered)
                && sender.send(event).await.is_err()
            {
                return;
            }
            tokio::select! {
                () = sender.closed() => return,
                () = sleep(POLL) => {}
            }
        }
    }

    /// The event that brings the viewer up to date; `None` if nothing has changed.
    fn change(&mut self, rendered: &Rendered) -> Option<Event> {
        let shown: Vec<_> = rendered.live.iter().map(|part| (part.id.clone(), hash(&part.html))).collect();
        let now = seen(&rendered.live);
        let before = std::mem::replace(&mut self.shown, shown);
        if now == self.seen {
            return None;
        }
        self.seen = now;
        let same_parts = before.iter().map(|(id, _)| id).eq(self.shown.iter().map(|(id, _)| id));
        let event = Event::default().id(&self.seen);
        if !same_parts {
            return Some(event.event("reload").data(rendered.at.to_string()));
        }
        let changed = rendered.live.iter().zip(&self.shown).zip(&before);
        let changed = changed.filter(|((_, now), before)| now != before).map(|((part, _), _)| part);
        let changed: Vec<_> = changed.map(|part| json!({ "id": part.id, "html": part.html })).collect();
        Some(
            event.event("parts").data(json!({ "at": rendered.at.to_string(), "parts": changed }).to_string()),
        )
    }
}

/// The hash of all parts, which a page has, and sends when it connects.
pub(super) fn seen(parts: &[LivePart]) -> String {
    let mut hasher = DefaultHasher::new();
    for part in parts {
        (&part.id, &part.html).hash(&mut hasher);
    }
    format!("{:x}", hasher.finish())
}

fn hash(html: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    html.hash(&mut hasher);
    hasher.finish()
}
