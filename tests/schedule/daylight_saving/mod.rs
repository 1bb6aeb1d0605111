//! What clock changes do to ticks: every change of every zone against an oracle, then the famous cases.

mod famous;
mod oracle;

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use jiff::tz::{TimeZone, TimeZoneDatabase};
use jobs::Timestamp;
use jobs::schedule::Schedule;
use oracle::{Daily, pieces};

const HOUR: i64 = 3600;
const TWO_DAYS: i64 = 48 * HOUR;

const FIXED: [&str; 12] = [
    "0 0 * * *",
    "59 23 * * *",
    "30 0 * * *",
    "30 1 * * *",
    "0 2 * * *",
    "30 2 * * *",
    "0 3 * * *",
    "30 0 2 * * *",
    "0 2,14 * * *",
    "0 1-3 * * *",
    "15,45 0-4 * * *",
    "30 2 * * 0",
];
const HOURLY: [&str; 3] = ["0 * * * *", "*/20 1-3 * * *", "30 1-3/2 * * 0,6"];
const FREQUENT: [&str; 3] = ["*/15 * * * *", "15 */10 * * * *", "* * * * *"];

/// A zone and the instants, in seconds since 1970, at which its clocks change.
struct Zone {
    name: String,
    clock: TimeZone,
    changes: Vec<i64>,
}

/// One zone for each different set of changes in the years 2000 to 2040.
fn zones() -> Vec<Zone> {
    let database = TimeZoneDatabase::bundled();
    let begin: jiff::Timestamp = "2000-01-01T00:00:00Z".parse().unwrap();
    let end: jiff::Timestamp = "2041-01-01T00:00:00Z".parse().unwrap();
    let mut seen = HashSet::new();
    let mut zones = Vec::new();
    for name in database.available() {
        let zone = database.get(name.as_str()).unwrap();
        let changes: Vec<_> = zone
            .following(begin)
            .take_while(|change| change.timestamp() < end)
            .map(|change| (change.timestamp().as_second(), change.offset()))
            .collect();
        if seen.insert((zone.to_offset(begin), changes.clone())) {
            let changes = changes.into_iter().map(|(second, _)| second).collect();
            zones.push(Zone { name: name.to_string(), clock: zone, changes });
        }
    }
    zones
}

/// Runs the check for every zone, on all cores, and adds up what it returns.
fn in_all(zones: &[Zone], check: impl Fn(&Zone) -> usize + Sync) -> usize {
    let next = AtomicUsize::new(0);
    let worker = || {
        let zones = std::iter::from_fn(|| zones.get(next.fetch_add(1, Ordering::Relaxed)));
        zones.map(&check).sum::<usize>()
    };
    std::thread::scope(|scope| {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().map(|worker| worker.join().expect("ticks differ")).sum()
    })
}

/// Compares the schedules with the oracle around each change, and says how many ticks there were.
fn compare(zone: &Zone, texts: &[&str], reach: i64) -> usize {
    let parse = |text: &&str| (Schedule::parse(text, Some(&zone.name)).unwrap(), Daily::read(text));
    let schedules: Vec<_> = texts.iter().map(parse).collect();
    let mut count = 0;
    for change in &zone.changes {
        let whole_hour = change - change.rem_euclid(HOUR);
        let (from, to) = (whole_hour - reach, whole_hour + reach);
        let pieces = pieces(&zone.clock, from, to);
        for (schedule, daily) in &schedules {
            let expected = daily.ticks(&pieces);
            let about = || format!("{schedule} around {}", instant(*change));
            assert_eq!(ticks_between(schedule, from, to), expected, "{}", about());
            for probe in
                [-HOUR, -1, 0, 1, HOUR / 2, HOUR - 1, HOUR, 2 * HOUR].map(|distance| change + distance)
            {
                if let Some(next) = expected.iter().find(|tick| **tick > probe) {
                    assert_eq!(schedule.next_after(instant(probe)), Some(instant(*next)), "{}", about());
                }
            }
            count += expected.len();
        }
    }
    count
}

fn ticks_between(schedule: &Schedule, from: i64, to: i64) -> Vec<i64> {
    let before = Timestamp::from_micros(from * 1_000_000 - 1);
    let ticks = std::iter::successors(schedule.next_after(before), |tick| later_than(*tick, schedule));
    let seconds = ticks.map(|tick| {
        assert_eq!(tick.as_micros() % 1_000_000, 0, "a tick is a whole second");
        tick.as_micros() / 1_000_000
    });
    seconds.take_while(|second| *second < to).collect()
}

fn later_than(tick: Timestamp, schedule: &Schedule) -> Option<Timestamp> {
    let next = schedule.next_after(tick);
    assert!(next.is_none_or(|next| next > tick), "{schedule} stands still at {tick}");
    next
}

fn instant(second: i64) -> Timestamp {
    Timestamp::from_micros(second * 1_000_000)
}

#[test]
fn fixed_times_happen_once_around_every_clock_change_of_every_zone() {
    let zones = zones();
    assert!(zones.len() > 150 && zones.iter().map(|zone| zone.changes.len()).sum::<usize>() > 5_000);
    assert!(in_all(&zones, |zone| compare(zone, &FIXED, TWO_DAYS)) > 500_000);
}

#[test]
fn hourly_wildcards_follow_elapsed_time_around_every_clock_change_of_every_zone() {
    assert!(in_all(&zones(), |zone| compare(zone, &HOURLY, TWO_DAYS)) > 500_000);
}

/// These have so many ticks that only the hours around a change are looked at, and a change which zones
/// share in one of them.
#[test]
fn frequent_wildcards_follow_elapsed_time_around_every_clock_change() {
    let mut zones = zones();
    let mut seen = HashSet::new();
    for Zone { clock, changes, .. } in &mut zones {
        let offset = |second| clock.to_offset(jiff::Timestamp::from_second(second).unwrap());
        changes.retain(|change| seen.insert((*change, offset(change - 1), offset(*change))));
    }
    assert!(in_all(&zones, |zone| compare(zone, &FREQUENT, 4 * HOUR)) > 1_000_000);
}
