//! The frame of every page.

use axum::response::Html;
use maud::{DOCTYPE, Markup, html};

use super::widgets::time;
use super::{PageName, Rendered, View};
use crate::observe::dashboard::assets::VERSION;
use crate::observe::dashboard::parameters::address;

const NAVIGATION: [PageName; 5] =
    [PageName::Jobs, PageName::Timeline, PageName::Servers, PageName::Locks, PageName::Audit];

/// A whole page. The script connects to `events`, if there are any.
pub(super) fn page(
    title: &str,
    name: Option<PageName>,
    content: &Rendered,
    events: Option<&str>,
) -> Html<String> {
    let asset = |path: &str| address(path, &[("v", VERSION.as_str())]);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                (title_element(&content.title, title))
                link rel="icon" href="icon.svg" type="image/svg+xml";
                link rel="stylesheet" href=(asset("style.css"));
                script src=(asset("script.js")) {}
            }
            body {
                a class="skip" href="#main" { "Skip to the content" }
                header {
                    a class="brand" href="overview" { span class="mark" aria-hidden="true" {} (title) }
                    nav aria-label="Pages" {
                        @for link in NAVIGATION { (nav_link(link, name)) }
                    }
                    div class="settings" { (settings(content)) }
                }
                main id="main" tabindex="-1" data-events=[events] data-now=(content.at) { (content.main) }
                div id="notice" role="status" aria-live="polite" {}
                noscript { footer { "Live updates need JavaScript. Reload the page to see changes." } }
            }
        }
    };
    Html(page.0)
}

/// The title of the document. It is a live part: it counts the jobs with problems.
pub(super) fn title_element(page: &str, title: &str) -> Markup {
    html! { title id="title" { (page) " · " (title) } }
}

fn nav_link(link: PageName, current: Option<PageName>) -> Markup {
    let is_current = current == Some(link) || (link == PageName::Jobs && current == Some(PageName::Job));
    html! { a href=(link.path()) aria-current=[is_current.then_some("page")] { (link.title()) } }
}

fn settings(content: &Rendered) -> Markup {
    html! {
        button id="live" type="button" data-state="off" disabled { span class="dot" aria-hidden="true" {} span class="text" { "Not live" } }
        span class="clock" title="The store's time" {
            span class="label" { "Store " }
            time id="clock" datetime=(content.at) { (super::widgets::utc(content.at, content.at)) }
        }
        label class="zone" {
            span class="hidden" { "Time zone" }
            select id="zone" disabled {
                option value="utc" { "UTC" }
                option value="job" { "Job’s zone" }
                option value="browser" { "My zone" }
            }
        }
        button id="theme" type="button" aria-label="Theme" disabled { "◐" }
    }
}

/// Says that what the page shows is old.
pub(super) fn trouble(view: &View<'_>, trouble: Option<&str>) -> Markup {
    html! {
        div id="trouble" role="alert" class=[trouble.map(|_| "banner bad")] {
            @if let Some(trouble) = trouble {
                p {
                    strong { "The store could not be read. " }
                    "This is the state of " (time(view.now(), view.now(), None)) ". " (trouble)
                }
            }
        }
    }
}
