//! The routes, and the headers of every answer.

use std::sync::Arc;

use axum::Router;
use axum::extract::{OriginalUri, Request, State};
use axum::http::header::{CACHE_CONTROL, HeaderName, HeaderValue, LOCATION};
use axum::http::{StatusCode, Uri};
use axum::middleware::map_response;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};

use super::pages::{PageName, respond};
use super::parameters::address;
use super::{Shared, actions, api, assets, live, pages};

/// Nothing is loaded from elsewhere, and neither scripts nor styles are in the pages. A page is never inside of another one.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
     connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

const HEADERS: [(HeaderName, &str); 7] = [
    (HeaderName::from_static("content-security-policy"), CONTENT_SECURITY_POLICY),
    (HeaderName::from_static("x-content-type-options"), "nosniff"),
    (HeaderName::from_static("x-frame-options"), "DENY"),
    (HeaderName::from_static("x-robots-tag"), "noindex, nofollow"),
    // Forms need their origin.
    (HeaderName::from_static("referrer-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

pub(super) fn router(shared: Arc<Shared>) -> Router {
    let mut router = Router::new()
        .route("/", get(index))
        .route("/confirm", get(pages::confirm::page))
        .route("/action", post(actions::from_page))
        .route("/events", get(live::events))
        .route("/script.js", get(assets::script))
        .route("/style.css", get(assets::style))
        .route("/icon.svg", get(assets::icon))
        .route("/api/v1/overview", get(api::overview))
        .route("/api/v1/action", post(actions::from_program));
    for name in PageName::ALL {
        router = router.route(&format!("/{}", name.path()), page(name));
        router = router.route(&format!("/api/v1/{}", name.api_path()), twin(name));
    }
    router.fallback(not_found).layer(map_response(with_headers)).with_state(shared)
}

fn page(name: PageName) -> MethodRouter<Arc<Shared>> {
    get(move |State(shared): State<Arc<Shared>>, request: Request| async move {
        let (parts, _body) = request.into_parts();
        respond(&shared, name, &parts).await
    })
}

fn twin(name: PageName) -> MethodRouter<Arc<Shared>> {
    get(
        move |State(shared): State<Arc<Shared>>, uri: Uri| async move { api::twin(&shared, name, &uri).await },
    )
}

/// Redirects to the first page, relative to the address of the request: the path before it may be unknown here.
async fn index(OriginalUri(uri): OriginalUri) -> Response {
    let last = uri.path().rsplit('/').next().unwrap_or_default();
    let start = if last.is_empty() { "overview".to_owned() } else { format!("{last}/overview") };
    let location = HeaderValue::from_str(&start).unwrap_or(HeaderValue::from_static("overview"));
    (StatusCode::SEE_OTHER, [(LOCATION, location)]).into_response()
}

async fn not_found(OriginalUri(uri): OriginalUri) -> Response {
    // A mounted router does not match its own path with a slash at the end.
    if uri.path().ends_with('/') {
        return (StatusCode::SEE_OTHER, [(LOCATION, address("overview", &[]))]).into_response();
    }
    (StatusCode::NOT_FOUND, "there is no such page; the first page is `overview`\n").into_response()
}

async fn with_headers(mut response: Response) -> Response {
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response.headers_mut().entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}
