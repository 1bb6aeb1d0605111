//! Locks, slots, leaders and done marks.

use maud::{Markup, html};

use super::View;
use super::widgets::{badge, counted, relative, span, time};
use crate::fleet::{ActionKind, HeldLock, LeaseKind};

/// A fleet may hold many thousands.
const MOST: usize = 500;

pub(super) fn page(view: &View<'_>) -> Markup {
    let of = |kinds: &[&str]| -> Vec<&HeldLock> {
        let fits = |lock: &&HeldLock| kinds.contains(&lock.kind.map_or("foreign", LeaseKind::as_str));
        view.overview.locks.iter().filter(fits).collect()
    };
    html! {
        h1 { "Locks" }
        (view.live("leaders", section(view, "leaders", "Leaders", &of(&["leader"]))))
        (view.live("locks", section(view, "locks", "Locks", &of(&["lock", "once", "foreign", "run"]))))
        (view.live("slots", section(view, "slots", "Slots", &of(&["slot"]))))
        (view.live("done", done(view)))
    }
}

fn section(view: &View<'_>, id: &str, title: &str, locks: &[&HeldLock]) -> Markup {
    html! {
        section id=(id) {
            (counted(title, locks.len()))
            @if locks.is_empty() { p class="empty" { "None is held." } }
            @else {
                div class="scroll" role="region" aria-label=(title) tabindex="0" {
                    table {
                        thead { tr {
                            th scope="col" { "Key" } th scope="col" { "Kind" } th scope="col" { "Holder" } th scope="col" { "Since" }
                            th scope="col" { "Expires unless extended" } th scope="col" { "Fence" } th scope="col" { span class="hidden" { "Action" } }
                        } }
                        tbody { @for lock in locks.iter().take(MOST) { (row(view, lock)) } }
                    }
                }
                @if locks.len() > MOST { p class="quiet" { "The first " (MOST) " are shown." } }
            }
        }
    }
}

fn row(view: &View<'_>, lock: &HeldLock) -> Markup {
    let now = view.now();
    html! {
        tr {
            td data-label="Key" { code { (lock.key) } }
            td data-label="Kind" { @match lock.kind {
                Some(LeaseKind::Slot { of }) => (badge("idle", &format!("slot of {of}"))),
                Some(kind) => (badge("idle", kind.as_str())),
                None => (badge("warn", "another program")),
            } }
            td data-label="Holder" { (lock.holder.server.as_deref().unwrap_or("unknown")) }
            td data-label="Since" { @match lock.holder.since { Some(since) => { (time(since, now, None)) ", " (relative(since, now)) }, None => "unknown" } }
            // A remaining time would change with every second.
            td data-label="Expires" { @match lock.holder.remaining { Some(remaining) => (time(rounded(now + remaining), now, None)), None => "never" } }
            td data-label="Fence" class="number" { @if let Some(fence) = lock.fence { (fence) } }
            td { (view.button(ActionKind::Unlock, &lock.key, "Unlock")) }
        }
    }
}

fn rounded(at: crate::Timestamp) -> crate::Timestamp {
    crate::Timestamp::from_micros(at.as_micros() / 1_000_000 * 1_000_000)
}

fn done(view: &View<'_>) -> Markup {
    let (done, now) = (&view.overview.done, view.now());
    html! {
        section id="done" {
            (counted("Done marks", done.len()))
            @if done.is_empty() { p class="empty" { "No work is marked as done." } }
            @else {
                div class="scroll" role="region" aria-label="Done marks" tabindex="0" {
                    table {
                        thead { tr { th scope="col" { "Key" } th scope="col" { "Done" } th scope="col" { "Counts until" } th scope="col" { "Kept for" } } }
                        tbody { @for mark in done.iter().take(MOST) {
                            tr {
                                td data-label="Key" { code { (mark.key) } }
                                td data-label="Done" { (time(mark.at, now, None)) ", " (relative(mark.at, now)) }
                                td data-label="Until" { (time(mark.until, now, None)) }
                                td data-label="Kept for" { (span(mark.until.since(mark.at))) }
                            }
                        } }
                    }
                }
                @if done.len() > MOST { p class="quiet" { "The first " (MOST) " are shown." } }
            }
        }
    }
}
