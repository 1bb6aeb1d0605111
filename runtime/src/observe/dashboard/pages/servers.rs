//! The servers: alive, with their versions, clocks and runs.

use maud::{Markup, html};

use super::View;
use super::widgets::{badge, counted, job_link, relative, time};
use crate::fleet::ServerInfo;
use crate::observe::dashboard::parameters::address;

/// A clock that is further off is shown as a problem.
const TOLERATED_OFFSET: f64 = 0.5;

pub(super) fn page(view: &View<'_>) -> Markup {
    let differing: Vec<_> = view.overview.jobs.iter().filter(|job| job.variants.len() > 1).collect();
    html! {
        h1 { "Servers" }
        (view.live("differing", html! {
            div id="differing" {
                @if !differing.is_empty() {
                    section class="banner warn" {
                        p { strong { "Servers differ. " } "They have different schedules or settings for these jobs, as during a deploy:" }
                        ul { @for job in &differing { li {
                            (job_link(&job.key)) ": "
                            @for (number, variant) in job.variants.iter().enumerate() {
                                @if number > 0 { "; " }
                                code { (variant.job.as_ref().and_then(|job| job.schedule.as_deref()).unwrap_or("no schedule")) }
                                " on " (variant.servers.join(", "))
                            }
                        } } }
                    }
                }
            }
        }))
        (view.live("servers", html! {
            section id="servers" {
                (counted("Alive", view.overview.servers.len()))
                @if view.overview.servers.is_empty() { p class="empty" { "No server is alive." } }
                ul class="cards" { @for server in &view.overview.servers { (card(view, server, &badge("ok", "alive"))) } }
                @if !view.overview.lost_servers.is_empty() {
                    (counted("Lost", view.overview.lost_servers.len()))
                    p class="quiet" { "Their heartbeats stopped within the last hour without a shutdown: they crashed, hang, or are cut off from the store." }
                    ul class="cards" { @for server in &view.overview.lost_servers { (card(view, server, &badge("bad", "lost"))) } }
                }
            }
        }))
    }
}

fn card(view: &View<'_>, server: &ServerInfo, state: &Markup) -> Markup {
    let now = view.now();
    let offset = server.clock_ahead_seconds();
    html! {
        li class="card" {
            h3 { (server.id) }
            div class="badges" {
                (state)
                @if let Some(version) = &server.app_version { (badge("idle", version)) }
                @for (name, value) in &server.labels { (badge("idle", &format!("{name}: {value}"))) }
                @if offset.abs() > TOLERATED_OFFSET { (badge("bad", "clock differs")) }
            }
            dl class="settings-list" {
                div { dt { "Started" } dd { (relative(server.started, now)) " " span class="quiet" { (time(server.started, now, None)) } } }
                div { dt { "Heartbeat" } dd { (relative(server.announced, now)) } }
                div { dt { "Clock" } dd { (format!("{offset:+.3} s")) " to the store" } }
                div { dt { "Library" } dd { "singleton-jobs " (server.version) } }
                div { dt { "Jobs" } dd { a href=(address("overview", &[("q", &server.id)])) { (server.jobs.len()) " jobs" } } }
                div { dt { "In flight" } dd {
                    @if server.running.is_empty() { "none" }
                    @for (number, run) in server.running.iter().enumerate() { @if number > 0 { ", " } (job_link(&run.key)) }
                } }
            }
        }
    }
}
