//! The timeline: runs by server, overlaps, takeovers and gaps.

use super::*;
use crate::fleet::{RunOverlap, RunTimeline};
use crate::history::CurrentRun;

const HOUR: Duration = Duration::from_secs(3600);

/// A run on this server from minute to minute of the hour from 04:00.
fn ran(server: &str, from: i64, to: i64) -> RunRecord {
    RunRecord { server: server.to_owned(), started: at(4, from), ended: at(4, to), ..run() }
}

/// Runs of stores are newest first.
fn with_runs(key: &str, runs: impl IntoIterator<Item = RunRecord>) -> JobOverview {
    let mut runs: Vec<_> = runs.into_iter().collect();
    runs.reverse();
    JobOverview { runs, ..job(key) }
}

fn last_hour(jobs: impl IntoIterator<Item = JobOverview>) -> RunTimeline {
    overview(jobs).timeline(HOUR)
}

/// Of each lane: the server, and the keys and starts of its runs.
fn lanes(timeline: &RunTimeline) -> Vec<(&str, Vec<(&str, Timestamp)>)> {
    timeline
        .lanes
        .iter()
        .map(|lane| {
            let runs = lane.runs.iter().map(|run| (run.key.as_str(), run.started)).collect();
            (lane.server.as_str(), runs)
        })
        .collect()
}

#[test]
fn runs_are_sorted_by_server_and_time_with_the_servers_alive_first() {
    let jobs = [
        with_runs("import", [ran("gone-7", 20, 21), ran("web-2", 30, 31), ran("web-1", 40, 41)]),
        with_runs("report", [ran("web-1", 35, 36)]),
    ];
    let mut seen = overview(jobs);
    seen.servers = vec![server("web-1", "import"), server("web-2", "import"), server("idle", "import")];
    let timeline = seen.timeline(HOUR);
    assert_eq!((timeline.from, timeline.to), (at(4, 10), at(5, 10)));
    let expected = [
        ("idle", vec![]),
        ("web-1", vec![("report", at(4, 35)), ("import", at(4, 40))]),
        ("web-2", vec![("import", at(4, 30))]),
        ("gone-7", vec![("import", at(4, 20))]),
    ];
    assert_eq!(lanes(&timeline), expected);
    let alive: Vec<_> = timeline.lanes.iter().map(|lane| lane.is_alive).collect();
    assert_eq!(alive, [true, true, true, false]);
    assert_eq!((timeline.overlaps.len(), timeline.gaps.len(), timeline.cut_off.len()), (0, 0, 0));
}

#[test]
fn runs_that_reach_into_the_span_are_shown_and_those_that_never_started_are_not() {
    let never = RunRecord { outcome: RunOutcome::NotStarted, ..ran("web-1", 50, 50) };
    let timeline = last_hour([with_runs("import", [ran("web-1", 0, 9), ran("web-1", 5, 10), never])]);
    assert_eq!(lanes(&timeline), [("web-1", vec![("import", at(4, 5))])]);
}

#[test]
fn run_in_progress_lasts_until_now() {
    let current = |started| JobOverview {
        current: Some(CurrentRun { started, ..CurrentRun::of(lease(None)) }),
        ..job("import")
    };
    let timeline = last_hour([current(at(3, 0))]);
    let run = &timeline.lanes[1].runs[0];
    assert_eq!((run.outcome, run.started, run.ended), (None, at(3, 0), at(5, 10)));
    let timeline = last_hour([current(at(5, 11))]);
    assert_eq!(timeline.lanes[1].runs[0].ended, at(5, 11), "it never ends before it began");
}

#[test]
fn runs_of_one_job_at_the_same_time_overlap() {
    let overlap = |servers: [&str; 2], from, to| RunOverlap {
        key: "import".to_owned(),
        servers: servers.map(str::to_owned),
        from: at(4, from),
        to: at(4, to),
    };
    let of = |runs: Vec<RunRecord>| last_hour([with_runs("import", runs)]).overlaps;
    assert_eq!(of(vec![ran("web-1", 20, 30), ran("web-2", 25, 35)]), [overlap(["web-1", "web-2"], 25, 30)]);
    // A long run overlaps with each short one within it, not only with the first.
    let long = vec![ran("web-1", 20, 50), ran("web-2", 25, 26), ran("web-3", 40, 41)];
    assert_eq!(of(long), [overlap(["web-1", "web-2"], 25, 26), overlap(["web-1", "web-3"], 40, 41)]);
    assert_eq!(of(vec![ran("web-1", 20, 30), ran("web-2", 30, 40)]), [], "one begins when the other ends");
    let two_jobs = [with_runs("import", [ran("web-1", 20, 30)]), with_runs("report", [ran("web-1", 20, 30)])];
    assert_eq!(last_hour(two_jobs).overlaps, [], "different jobs do not");
    let over = vec![ran("web-1", 0, 5), ran("web-2", 4, 9)];
    assert_eq!(of(over), [], "before the span");
}

#[test]
fn run_in_progress_overlaps_with_one_that_ended() {
    let started = at(4, 25);
    let current = CurrentRun { started, ..CurrentRun::of(lease(None)) };
    let job = JobOverview { current: Some(current), ..with_runs("import", [ran("web-1", 20, 30)]) };
    let overlaps = last_hour([job]).overlaps;
    assert_eq!(overlaps.len(), 1);
    assert_eq!((overlaps[0].from, overlaps[0].to), (at(4, 25), at(4, 30)));
    assert_eq!(overlaps[0].servers, ["web-1", "web-2"]);
}

#[test]
fn takeover_follows_the_crash_and_does_not_overlap_with_it() {
    let crashed = RunRecord { outcome: RunOutcome::Crashed, ..ran("gone-7", 20, 21) };
    let taken = RunRecord { trigger: Trigger::Takeover, attempt: 2, ..ran("web-1", 21, 22) };
    let timeline = last_hour([with_runs("import", [crashed, taken])]);
    assert_eq!(timeline.overlaps, []);
    let runs: Vec<_> = timeline
        .lanes
        .iter()
        .flat_map(|lane| lane.runs.iter().map(|run| (&*lane.server, run.outcome, run.trigger, run.attempt)))
        .collect();
    let expected = [
        ("web-1", Some(RunOutcome::Succeeded), Trigger::Takeover, 2),
        ("gone-7", Some(RunOutcome::Crashed), Trigger::Schedule, 1),
    ];
    assert_eq!(runs, expected);
}

#[test]
fn ticks_that_did_not_run_are_gaps_with_their_reasons() {
    let skip = |hour, minute, reason| SkipRecord::new(at(hour, minute), reason, "web-1", at(hour, minute));
    let skips = vec![skip(5, 0, Skip::Held), skip(4, 30, Skip::Missed), skip(4, 9, Skip::Paused)];
    let jobs = [
        JobOverview { skips, ..job("import") },
        JobOverview { skips: vec![skip(4, 45, Skip::Paused)], overdue: Some(at(5, 0)), ..job("alerts") },
    ];
    let timeline = last_hour(jobs);
    let gaps: Vec<_> = timeline.gaps.iter().map(|gap| (gap.key.as_str(), gap.tick, gap.reason)).collect();
    let expected = [
        ("import", at(4, 30), Some(Skip::Missed)),
        ("alerts", at(4, 45), Some(Skip::Paused)),
        ("alerts", at(5, 0), None),
        ("import", at(5, 0), Some(Skip::Held)),
    ];
    assert_eq!(gaps, expected, "the tick before the span is left out");
}

#[test]
fn jobs_whose_older_runs_are_not_on_record_are_named() {
    let with = |runs| JobOverview {
        stats: Stats { runs, ..Stats::default() },
        ..with_runs("import", [ran("web-1", 20, 21), ran("web-1", 40, 41)])
    };
    assert_eq!(last_hour([with(2)]).cut_off.len(), 0, "all runs are there");
    let cut = last_hour([with(50)]).cut_off;
    assert_eq!(cut.into_iter().collect::<Vec<_>>(), [("import".to_owned(), at(4, 20))]);
    let wide = overview([with(50)]).timeline(Duration::from_secs(60));
    assert_eq!(wide.cut_off.len(), 0, "the runs on record reach back further than the span");
}
