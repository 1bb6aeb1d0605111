//! The load map: ticks of the next day, times the mean duration of their jobs.

use super::*;
use crate::fleet::{LoadCell, LoadMap};

const TEN_MINUTES: Duration = Duration::from_secs(600);

/// A job with this schedule, whose two successful runs took this long on average.
fn scheduled(key: &str, schedule: &str, mean: u64) -> JobOverview {
    let stats = Stats { runs: 2, successes: 2, total_micros: mean * 2_000_000, ..Stats::default() };
    JobOverview { schedule: Some(schedule.to_owned()), stats, ..job(key) }
}

fn map(jobs: impl IntoIterator<Item = JobOverview>) -> LoadMap {
    overview(jobs).load_map()
}

fn cell(map: &LoadMap, at: Timestamp) -> &LoadCell {
    map.cells.iter().find(|cell| cell.at == at).unwrap_or_else(|| panic!("no cell at {at}"))
}

/// Begin, ticks and seconds of work of the cells that have ticks.
fn busy(map: &LoadMap) -> Vec<(Timestamp, u64, u64)> {
    let busy = map.cells.iter().filter(|cell| cell.ticks > 0);
    busy.map(|cell| (cell.at, cell.ticks, cell.work.as_secs())).collect()
}

#[test]
fn map_covers_a_day_in_steps_of_ten_minutes() {
    let map = map([]);
    assert_eq!((map.step, map.cells.len()), (TEN_MINUTES, 144));
    assert_eq!(map.cells[0].at, at(5, 10), "the first one has begun");
    assert!(map.cells.windows(2).all(|pair| pair[1].at == pair[0].at + TEN_MINUTES));
    assert_eq!(busy(&map), []);
    let mut later = overview([]);
    later.at = at(5, 19) + Duration::from_secs(59);
    assert_eq!(later.load_map().cells[0].at, at(5, 10));
}

#[test]
fn work_is_ticks_times_the_mean_duration() {
    let hourly = map([scheduled("report", "0 * * * * UTC", 90)]);
    let expected: Vec<_> = (6..30).map(|hour| (at(hour, 0), 1, 90)).collect();
    assert_eq!(busy(&hourly), expected);
    let often = map([scheduled("import", "every 2m", 30)]);
    assert!(often.cells[1..].iter().all(|cell| (cell.ticks, cell.work.as_secs()) == (5, 150)));
    assert_eq!(often.cells[0].ticks, 4, "the tick of now has begun");
    let unknown = JobOverview { stats: Stats::default(), ..scheduled("new", "0 6 * * * UTC", 0) };
    assert_eq!(busy(&map([unknown])), [(at(6, 0), 1, 0)], "no run has succeeded yet");
}

#[test]
fn ten_jobs_at_the_same_time_are_seen() {
    let jobs = (0..10).map(|number| scheduled(&format!("job-{number}"), "0 3 * * * UTC", 60 + number));
    let map = map(jobs);
    assert_eq!(busy(&map), [(at(27, 0), 10, 645)]);
    let keys: Vec<_> = (0..10).map(|number| format!("job-{number}")).collect();
    assert_eq!(cell(&map, at(27, 0)).jobs, keys);
}

#[test]
fn ticks_of_a_zone_are_at_its_local_time() {
    assert_eq!(busy(&map([scheduled("close", "0 3 * * * Europe/Berlin", 1)])), [(at(26, 0), 1, 1)]);
}

#[test]
fn frequent_ticks_are_counted_where_they_are() {
    for (schedule, ticks) in
        [("every 30s", 20), ("*/10 * * * * * UTC", 60), ("every 1s", 600), ("every 10ms", 60_000)]
    {
        let map = map([scheduled("busy", schedule, 1)]);
        let counts: Vec<_> = map.cells.iter().map(|cell| cell.ticks).collect();
        assert_eq!(counts[1..], vec![ticks; 143], "{schedule}");
        assert!((ticks - 1..=ticks).contains(&counts[0]), "{schedule}: {}", counts[0]);
    }
    let mut late = overview([scheduled("busy", "every 1s", 1)]);
    late.at = at(5, 18);
    assert_eq!(late.load_map().cells[0].ticks, 119, "only the rest of the first cell");
    let nightly = map([scheduled("busy", "* * 3 * * * UTC", 1)]);
    let expected: Vec<_> = (0..6).map(|number| (at(27, number * 10), 600, 600)).collect();
    assert_eq!(busy(&nightly), expected, "nothing after the hour");
}

#[test]
fn pauses_and_jobs_without_a_server_are_left_out() {
    let hourly = || scheduled("report", "0 * * * * UTC", 60);
    let paused = |until| JobOverview { pause: Some(Pause { until, ..pause() }), ..hourly() };
    assert_eq!(busy(&map([paused(None)])), []);
    let rest: Vec<_> = busy(&map([paused(Some(at(28, 30)))])).into_iter().map(|(at, ..)| at).collect();
    assert_eq!(rest, [at(29, 0)], "ticks after the end of the pause count");
    assert_eq!(busy(&map([JobOverview { servers: Vec::new(), ..hourly() }])), []);
    assert_eq!(busy(&map([job("manual")])), []);
}
