//! All jobs, those with problems first.

use maud::{Markup, html};

use super::View;
use super::widgets::{
    alert_class, job_link, outcome_badge, pause_line, progress_bar, relative, span, state_badges, strip,
    time, zone,
};
use crate::Timestamp;
use crate::fleet::{ActionKind, JobOverview, Overview};
use crate::observe::dashboard::parameters::{Parameters, address};

/// More are on further pages.
const JOBS_PER_PAGE: usize = 50;

/// Which jobs are shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Filter {
    All,
    Problems,
    Running,
    Paused,
}

impl Filter {
    const ALL: [Self; 4] = [Self::All, Self::Problems, Self::Running, Self::Paused];

    fn of(parameters: &Parameters) -> Self {
        let name = parameters.get("state");
        Self::ALL.into_iter().find(|filter| filter.name() == name).unwrap_or(Self::All)
    }

    fn name(self) -> &'static str {
        match self {
            Self::All => "",
            Self::Problems => "problems",
            Self::Running => "running",
            Self::Paused => "paused",
        }
    }

    fn label(self) -> &'static str {
        match self {
            Self::All => "All",
            Self::Problems => "Problems",
            Self::Running => "Running",
            Self::Paused => "Paused",
        }
    }

    fn has(self, job: &JobOverview) -> bool {
        match self {
            Self::All => true,
            Self::Problems => !job.alerts().is_empty(),
            Self::Running => job.current.is_some(),
            Self::Paused => job.pause.is_some(),
        }
    }
}

/// The order of the jobs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum JobOrder {
    Problems,
    Key,
    Next,
    Last,
    Slowest,
}

impl JobOrder {
    const ALL: [Self; 5] = [Self::Problems, Self::Key, Self::Next, Self::Last, Self::Slowest];

    fn of(parameters: &Parameters) -> Self {
        let name = parameters.get("sort");
        Self::ALL.into_iter().find(|order| order.name() == name).unwrap_or(Self::Problems)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Problems => "",
            Self::Key => "key",
            Self::Next => "next",
            Self::Last => "last",
            Self::Slowest => "slowest",
        }
    }

    fn label(self) -> &'static str {
        match self {
            Self::Problems => "By problem",
            Self::Key => "By key",
            Self::Next => "By next run",
            Self::Last => "By last run",
            Self::Slowest => "By duration",
        }
    }

    /// Jobs with a lower rank come first, and those with the same one by key.
    fn rank(self, job: &JobOverview) -> (bool, i128) {
        let micros = |at: Timestamp| i128::from(at.as_micros());
        let rank = match self {
            Self::Problems => job.alerts().first().map(|worst| *worst as i128),
            Self::Key => None,
            Self::Next => job.next.map(micros),
            Self::Last => job.runs.first().map(|run| -micros(run.ended)),
            Self::Slowest => {
                job.stats.mean().and_then(|mean| i128::try_from(mean.as_micros()).ok()).map(|mean| -mean)
            }
        };
        (rank.is_none(), rank.unwrap_or_default())
    }
}

/// The jobs that a request asks for.
pub(in crate::observe::dashboard) struct JobsPage<'a> {
    pub(in crate::observe::dashboard) shown: Vec<&'a JobOverview>,
    /// The number of jobs on all pages.
    pub(in crate::observe::dashboard) found: usize,
    pub(in crate::observe::dashboard) number: usize,
    pub(in crate::observe::dashboard) pages: usize,
}

impl<'a> JobsPage<'a> {
    pub(in crate::observe::dashboard) fn new(overview: &'a Overview, parameters: &Parameters) -> Self {
        let (filter, order) = (Filter::of(parameters), JobOrder::of(parameters));
        let searched = parameters.get("q").to_lowercase();
        let found = overview.jobs.iter().filter(|job| filter.has(job) && matches(job, &searched));
        let mut found: Vec<_> = found.map(|job| (order.rank(job), job)).collect();
        found.sort_by(|(one, a), (other, b)| (one, &a.key).cmp(&(other, &b.key)));
        let pages = found.len().div_ceil(JOBS_PER_PAGE).max(1);
        let number = parameters.number("page").unwrap_or(1).clamp(1, pages);
        let shown = found.iter().skip((number - 1) * JOBS_PER_PAGE).take(JOBS_PER_PAGE);
        Self { shown: shown.map(|(_, job)| *job).collect(), found: found.len(), number, pages }
    }
}

fn matches(job: &JobOverview, searched: &str) -> bool {
    searched.is_empty()
        || job.key.to_lowercase().contains(searched)
        || job.description.to_lowercase().contains(searched)
        || job.servers.iter().any(|server| server.to_lowercase().contains(searched))
}

pub(super) fn page(view: &View<'_>) -> Markup {
    let page = JobsPage::new(view.overview, view.parameters);
    let (searched, order) = (view.parameters.get("q"), JobOrder::of(view.parameters));
    html! {
        div class="title" {
            h1 { "Jobs" }
            form role="search" method="get" action="overview" data-search {
                input type="search" name="q" value=(searched) placeholder="Search by key, description or server" aria-label="Search jobs";
                select name="sort" aria-label="Order" {
                    @for choice in JobOrder::ALL { option value=(choice.name()) selected[choice == order] { (choice.label()) } }
                }
                input type="hidden" name="state" value=(Filter::of(view.parameters).name());
                noscript { button type="submit" { "Search" } }
            }
            (view.live("fleet-actions", fleet_actions(view)))
        }
        (view.live("filters", filters(view)))
        (view.live("fleet-pause", fleet_pause(view)))
        ul class="jobs" {
            @for job in &page.shown { (view.live(format!("job-{}", job.key), row(view, job))) }
        }
        @if page.shown.is_empty() { (nothing(view)) }
        @if page.pages > 1 { (pager(view, &page)) }
    }
}

fn filters(view: &View<'_>) -> Markup {
    let chosen = Filter::of(view.parameters);
    let (searched, order) = (view.parameters.get("q"), JobOrder::of(view.parameters).name());
    html! {
        nav id="filters" class="tabs" aria-label="Filter" {
            @for filter in Filter::ALL {
                @let count = view.overview.jobs.iter().filter(|job| filter.has(job)).count();
                a class=[(filter == Filter::Problems && count > 0).then_some("loud")]
                    href=(address("overview", &[("state", filter.name()), ("q", searched), ("sort", order)]))
                    aria-current=[(filter == chosen).then_some("true")] {
                    (filter.label()) " " span class="count" { (count) }
                }
            }
        }
    }
}

/// What can be done with all jobs.
fn fleet_actions(view: &View<'_>) -> Markup {
    let is_paused = view.overview.pause.is_some();
    // A pause that did not reach all jobs, or that did not end for all of them, can be ended, too.
    let is_left = |job: &JobOverview| job.pause.as_ref().is_some_and(|pause| pause.all);
    html! {
        div id="fleet-actions" class="actions" {
            @if is_paused || view.overview.jobs.iter().any(is_left) { (view.button_for_all(ActionKind::Resume, "Resume all")) }
            (view.button_for_all(ActionKind::Pause, if is_paused { "Change pause of all" } else { "Pause all" }))
        }
    }
}

fn fleet_pause(view: &View<'_>) -> Markup {
    html! {
        div id="fleet-pause" {
            @if let Some(pause) = &view.overview.pause {
                p class="banner warn" { strong { "All jobs are paused. " } (pause_line(pause, view.now(), None)) }
            }
        }
    }
}

fn nothing(view: &View<'_>) -> Markup {
    html! {
        p class="empty" {
            @if view.overview.jobs.is_empty() {
                "No server has announced a job yet. A job appears here when a server that has it starts."
            } @else { "No job matches." }
        }
    }
}

fn row(view: &View<'_>, job: &JobOverview) -> Markup {
    let (now, zone) = (view.now(), zone(job));
    html! {
        li id=(format!("job-{}", job.key)) class=[problem_class(job)] {
            div class="what" {
                h2 { (job_link(&job.key)) }
                div class="badges" { (state_badges(job)) }
                @if let Some(line) = job.description.lines().next() { p class="quiet" { (line) } }
            }
            div class="when" {
                @match &job.schedule_in_words {
                    Some(words) => p { span title=[job.schedule.as_deref()] { (words) } },
                    None => p class="quiet" { "manual runs only" },
                }
                @if let Some(next) = job.next {
                    p class="quiet" { (relative(next, now)) " · " (time(next, now, zone)) }
                }
            }
            div class="runs" {
                (strip(&job.runs, job.current.is_some()))
                @if let Some(last) = job.runs.first() {
                    p class="quiet" { (super::widgets::words(last.outcome.as_str())) " in " (span(last.duration())) ", " (relative(last.ended, now)) }
                } @else { p class="quiet" { "no run on record" } }
            }
            (more(view, job))
        }
    }
}

/// A job that someone has paused is no failure.
fn problem_class(job: &JobOverview) -> Option<&'static str> {
    let worst = job.alerts().first().copied()?;
    Some(if alert_class(worst) == "bad" { "problem" } else { "problem mild" })
}

/// What needs a line of its own.
fn more(view: &View<'_>, job: &JobOverview) -> Markup {
    let (now, zone) = (view.now(), zone(job));
    let failed = job.runs.first().filter(|run| run.outcome.is_failure() && job.current.is_none());
    let is_telling = job.current.is_some() || !job.alerts().is_empty();
    html! {
        @if is_telling {
            div class="more" {
                @if let Some(run) = &job.current {
                    p class="progress" {
                        span { "Running on " b { (run.server) } ", started " (relative(run.started, now)) }
                        @if let Some(progress) = &run.progress { (progress_bar(progress)) }
                    }
                }
                @if let Some(pause) = &job.pause { p class="loud" { (pause_line(pause, now, zone)) } }
                @if let Some(overdue) = job.overdue { p { "The tick of " (time(overdue, now, zone)) " was not started." } }
                @if job.servers.is_empty() { p { "No server has this job." } }
                @if job.variants.len() > 1 { p { "Servers have " (job.variants.len()) " different versions of this job." } }
                @if let Some(run) = failed {
                    p { (outcome_badge(run.outcome)) " " @if let Some(error) = &run.error { code class="error" { (error.lines().next().unwrap_or_default()) } } }
                }
            }
        }
    }
}

fn pager(view: &View<'_>, page: &JobsPage<'_>) -> Markup {
    let [state, searched, order] = ["state", "q", "sort"].map(|name| view.parameters.get(name));
    let to = |number: usize| {
        let number = number.to_string();
        address("overview", &[("state", state), ("q", searched), ("sort", order), ("page", &number)])
    };
    html! {
        nav class="pager" aria-label="Pages of jobs" {
            @if page.number > 1 { a href=(to(page.number - 1)) rel="prev" { "Previous" } }
            span { "Page " (page.number) " of " (page.pages) ", " (page.found) " jobs" }
            @if page.number < page.pages { a href=(to(page.number + 1)) rel="next" { "Next" } }
        }
    }
}
