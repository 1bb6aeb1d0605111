//! `jobsctl watch`: running jobs with their progress, and the newest runs tick by tick.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use jobs::fleet::{JobOverview, Overview};
use jobs::history::{CurrentRun, RunRecord};
use jobs::{IntoDuration, Jobs};

use crate::args::{Options, Watch};
use crate::failure::{Answer, Failure};
use crate::inspect::{state, style_of};
use crate::output::{ACTIVE, BAD, Cell, FAINT, GOOD, Table};
use crate::time::{absolute, relative, span};

const BAR: u8 = 20;
/// Lines and columns, if the terminal does not say.
const USUAL_SIZE: (usize, usize) = (24, 100);

/// Switches to the alternate screen without a cursor, and back when it is dropped.
struct Screen;

impl Screen {
    fn open() -> Self {
        print!("\x1b[?1049h\x1b[?25l");
        Self
    }

    fn show(lines: &[String]) -> std::io::Result<()> {
        let mut out = std::io::stdout().lock();
        write!(out, "\x1b[H")?;
        for line in lines {
            write!(out, "{line}\x1b[K\r\n")?;
        }
        write!(out, "\x1b[J")?;
        out.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        print!("\x1b[?25h\x1b[?1049l");
        let _ = std::io::stdout().flush();
    }
}

pub(crate) async fn watch(options: &Options, jobs: &Jobs, watch: &Watch) -> Result<Answer, Failure> {
    let interval = watch.interval.as_str().into_duration();
    let interval = interval.map_err(|problem| Failure::Usage(format!("--interval {problem}")))?;
    let interval = interval.max(Duration::from_millis(100));
    let screen = (std::io::stdout().is_terminal() && !options.json).then(Screen::open);
    let mut looks = 0;
    loop {
        let overview = jobs.overview().await?;
        if options.json {
            println!("{}", overview.to_json());
        } else if screen.is_some() {
            let (height, width) = size();
            let lines = frame(options, &overview, height.saturating_sub(1), width);
            Screen::show(&lines).map_err(|error| Failure::System(error.to_string()))?;
        } else {
            for line in frame(options, &overview, usize::MAX, usize::MAX) {
                anstream::println!("{line}");
            }
        }
        looks += 1;
        if watch.count.is_some_and(|count| looks >= count) {
            return Ok(Answer::Good);
        }
        tokio::select! {
            biased;
            _ = tokio::signal::ctrl_c() => return Ok(Answer::Good),
            () = tokio::time::sleep(interval) => {}
        }
    }
}

fn size() -> (usize, usize) {
    let size = terminal_size::terminal_size();
    size.map_or(USUAL_SIZE, |(width, height)| (height.0.into(), width.0.into()))
}

/// The lines of one look: a header, problems, running jobs, the newest runs.
fn frame(options: &Options, overview: &Overview, height: usize, width: usize) -> Vec<String> {
    let mut lines = vec![header(options, overview), String::new()];
    lines.extend(problems(overview, height / 4));
    lines.extend(running(overview));
    let rest = height.saturating_sub(lines.len()).min(40);
    lines.extend(newest(options, overview, rest.saturating_sub(2)));
    lines.truncate(height);
    lines.into_iter().map(|line| cut(&line, width)).collect()
}

fn header(options: &Options, overview: &Overview) -> String {
    let running = overview.jobs.iter().filter(|job| job.current.is_some()).count();
    let bad = overview.jobs.iter().filter(|job| !job.alerts().is_empty()).count();
    let (servers, jobs) = (overview.servers.len(), overview.jobs.len());
    let at = absolute(overview.at, &options.tz);
    let bad_style = if bad > 0 { BAD } else { GOOD };
    format!(
        "{at}  {servers} servers  {jobs} jobs  {}  {}  {FAINT}ctrl-c ends{FAINT:#}",
        Cell::new(format!("{running} running"), ACTIVE).painted(),
        Cell::new(format!("{bad} with problems"), bad_style).painted()
    )
}

fn problems(overview: &Overview, most: usize) -> Vec<String> {
    let bad: Vec<_> = overview.jobs.iter().filter(|job| !job.alerts().is_empty()).collect();
    if bad.is_empty() {
        return Vec::new();
    }
    let mut table = Table::new(["PROBLEM", "STATE", "LAST ERROR"]);
    for job in bad.iter().take(most.max(1)) {
        let error = job.runs.first().and_then(|run| run.error.clone()).unwrap_or_default();
        table.add([job.key.clone().into(), state(job, overview), Cell::new(error, FAINT)]);
    }
    let mut lines = table.lines();
    if bad.len() > most.max(1) {
        lines.push(format!("… and {} more: jobsctl list --problems", bad.len() - most.max(1)));
    }
    lines.push(String::new());
    lines
}

fn running(overview: &Overview) -> Vec<String> {
    let mut table = Table::new(["RUNNING", "PROGRESS", "FOR", "SERVER", "STATUS"]);
    let mut runs: Vec<_> =
        overview.jobs.iter().filter_map(|job| Some((job, job.current.as_ref()?))).collect();
    if runs.is_empty() {
        return vec![Cell::new("nothing is running", FAINT).painted(), String::new()];
    }
    runs.sort_by_key(|(_, run)| run.started);
    for (job, run) in runs {
        let status = run.progress.as_ref().map(|progress| progress.status.clone()).unwrap_or_default();
        table.add([
            job.key.clone().into(),
            Cell::new(bar(job, run, overview), ACTIVE),
            span(overview.at.since(run.started)).into(),
            run.server.clone().into(),
            Cell::new(status, FAINT),
        ]);
    }
    let mut lines = table.lines();
    lines.push(String::new());
    lines
}

/// The reported progress; without one, the time against the mean of earlier runs.
fn bar(job: &JobOverview, run: &CurrentRun, overview: &Overview) -> String {
    let reported = run.progress.as_ref().filter(|progress| progress.total > 0);
    let took = overview.at.since(run.started).as_secs_f64();
    let (part, mark) = match (reported, job.stats.mean()) {
        #[expect(clippy::cast_precision_loss, reason = "it is drawn in twenty steps")]
        (Some(progress), _) => (progress.done as f64 / progress.total as f64, ""),
        (None, Some(mean)) if !mean.is_zero() => (took / mean.as_secs_f64(), "~"),
        _ => return format!("[{}]", "·".repeat(BAR.into())),
    };
    let part = part.clamp(0.0, 1.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is between 0 and 20")]
    let full = (part * f64::from(BAR)).round() as usize;
    format!("[{}{}] {mark}{:.0}%", "█".repeat(full), "·".repeat(usize::from(BAR) - full), part * 100.0)
}

/// The newest runs of all jobs: who won which tick.
fn newest(options: &Options, overview: &Overview, most: usize) -> Vec<String> {
    let mut runs: Vec<(&str, &RunRecord)> =
        overview.jobs.iter().flat_map(|job| job.runs.iter().map(|run| (job.key.as_str(), run))).collect();
    runs.sort_by_key(|(_, run)| std::cmp::Reverse(run.ended));
    let mut table = Table::new(["ENDED", "JOB", "OUTCOME", "TOOK", "WINNER", "TICK"]);
    for (key, run) in runs.into_iter().take(most) {
        let tick = run.tick.map_or_else(|| run.trigger.to_string(), |tick| absolute(tick, &options.tz));
        table.add([
            relative(run.ended, overview.at).into(),
            key.into(),
            Cell::new(run.outcome.as_str(), style_of(run.outcome)),
            span(run.duration()).into(),
            run.server.clone().into(),
            Cell::new(tick, FAINT),
        ]);
    }
    table.lines()
}

/// Cuts a line with colours to this number of columns.
fn cut(line: &str, width: usize) -> String {
    let (mut columns, mut in_escape) = (0, false);
    let kept = line.chars().filter(|c| {
        if in_escape {
            in_escape = !c.is_ascii_alphabetic();
            return true;
        }
        in_escape = *c == '\x1b';
        columns += usize::from(!in_escape);
        in_escape || columns <= width
    });
    kept.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_is_cut_by_its_visible_columns_and_keeps_its_colours() {
        assert_eq!(cut("\x1b[31mabcdef\x1b[0m", 3), "\x1b[31mabc\x1b[0m");
        assert_eq!(cut("abc", 3), "abc");
    }
}
