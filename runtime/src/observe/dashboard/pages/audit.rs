//! The actions of operators.

use maud::{Markup, html};

use super::View;
use super::widgets::{badge, counted, job_link, relative, time};
use crate::fleet::{Action, ActionKind};

pub(super) fn page(view: &View<'_>) -> Markup {
    let actions: Vec<_> = view.overview.actions.iter().collect();
    html! {
        h1 { "Audit" }
        (view.live("audit", html! {
            section id="audit" {
                (counted("Actions of operators", actions.len()))
                (action_table(view, &actions))
            }
        }))
    }
}

pub(super) fn action_table(view: &View<'_>, actions: &[&Action]) -> Markup {
    let is_job = |key: &str| view.overview.jobs.iter().any(|job| job.key == key);
    html! {
        @if actions.is_empty() { p class="empty" { "No action is on record." } }
        @else {
            div class="scroll" role="region" aria-label="Actions of operators" tabindex="0" {
                table {
                    thead { tr { th scope="col" { "When" } th scope="col" { "Who" } th scope="col" { "Action" } th scope="col" { "Key" } th scope="col" { "Note" } } }
                    tbody { @for action in actions {
                        tr {
                            td data-label="When" { (time(action.at, view.now(), None)) ", " (relative(action.at, view.now())) }
                            td data-label="Who" { (action.by) }
                            td data-label="Action" { (badge(class(action.what), action.what.as_str())) }
                            td data-label="Key" { @match action.key.as_deref() {
                                Some(key) if is_job(key) => (job_link(key)),
                                Some(key) => code { (key) },
                                None => "all jobs",
                            } }
                            td data-label="Note" { @if let Some(note) = &action.note { (note) } }
                        }
                    } }
                }
            }
        }
    }
}

fn class(kind: ActionKind) -> &'static str {
    match kind {
        ActionKind::Pause | ActionKind::Cancel => "warn",
        ActionKind::Unlock | ActionKind::Reset | ActionKind::Forget => "bad",
        ActionKind::Resume => "ok",
        ActionKind::Run => "run",
    }
}
