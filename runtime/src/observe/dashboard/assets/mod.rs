//! The script, the styles and the icon. They are part of the program.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::LazyLock;

use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::IntoResponse;

const SCRIPT: &str = include_str!("script.js");
const STYLE: &str = include_str!("style.css");
const ICON: &str = include_str!("icon.svg");

/// Part of the addresses of script and styles, which change with them.
pub(super) static VERSION: LazyLock<String> = LazyLock::new(|| {
    let mut hasher = DefaultHasher::new();
    (SCRIPT, STYLE).hash(&mut hasher);
    format!("{:x}", hasher.finish())
});

pub(super) async fn script() -> impl IntoResponse {
    asset("text/javascript; charset=utf-8", SCRIPT)
}

pub(super) async fn style() -> impl IntoResponse {
    asset("text/css; charset=utf-8", STYLE)
}

pub(super) async fn icon() -> impl IntoResponse {
    asset("image/svg+xml", ICON)
}

fn asset(kind: &'static str, content: &'static str) -> impl IntoResponse {
    ([(CONTENT_TYPE, kind), (CACHE_CONTROL, "private, max-age=86400")], content)
}
