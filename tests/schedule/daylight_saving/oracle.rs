//! When a schedule is due around a clock change, worked out from the rule, without the crate's code.
//!
//! All numbers are seconds: of UTC since 1970, or of the wall clock as if it were UTC. From jiff it takes
//! only the offset at an instant.

use jiff::Timestamp;
use jiff::tz::TimeZone;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// A piece of time in which the wall clock runs evenly.
pub struct Piece {
    begin: i64,
    length: i64,
    offset: i64,
}

/// Cuts the time between two whole hours into hours, and those with a clock change into minutes.
pub fn pieces(zone: &TimeZone, from: i64, to: i64) -> Vec<Piece> {
    let offset = |second| i64::from(zone.to_offset(Timestamp::from_second(second).unwrap()).seconds());
    let mut pieces = Vec::new();
    for hour in (from..to).step_by(3600) {
        let (first, last) = (offset(hour), offset(hour + HOUR - 1));
        if first == last {
            pieces.push(Piece { begin: hour, length: HOUR, offset: first });
            continue;
        }
        for minute in (hour..hour + HOUR).step_by(60) {
            let (first, last) = (offset(minute), offset(minute + MINUTE - 1));
            assert_eq!(first, last, "clocks change at whole minutes");
            pieces.push(Piece { begin: minute, length: MINUTE, offset: first });
        }
    }
    pieces
}

/// A schedule with `*` for day and month.
pub struct Daily {
    times: Vec<i64>,
    weekdays: Vec<i64>,
    fixed: bool,
}

impl Daily {
    pub fn read(text: &str) -> Self {
        let mut fields: Vec<&str> = text.split(' ').collect();
        if fields.len() == 5 {
            fields.insert(0, "0");
        }
        assert_eq!(fields[3..5], ["*", "*"], "no days and months here");
        let (seconds, minutes) = (values(fields[0], 60), values(fields[1], 60));
        let mut times = Vec::new();
        for hour in values(fields[2], 24) {
            for minute in &minutes {
                times.extend(seconds.iter().map(|second| hour * HOUR + minute * MINUTE + second));
            }
        }
        let fixed = !fields[..3].iter().any(|field| field.contains('*') || field.contains('/'));
        Self { times, weekdays: values(fields[5], 7), fixed }
    }

    /// Every tick in these pieces of time.
    ///
    /// A fixed time is due when the wall clock first shows it or, in a gap, a later one. Any other time is
    /// due whenever the wall clock shows it.
    pub fn ticks(&self, pieces: &[Piece]) -> Vec<i64> {
        let mut ticks = Vec::new();
        let mut shown_until = pieces[0].begin + pieces[0].offset;
        for Piece { begin, length, offset } in pieces {
            let shows = begin + offset;
            let fresh = if self.fixed { shown_until } else { shows };
            for time in self.times_between(fresh, shows + length) {
                ticks.push(begin + (time - shows).max(0));
            }
            shown_until = shown_until.max(shows + length);
        }
        ticks.dedup();
        ticks
    }

    fn times_between(&self, from: i64, to: i64) -> impl Iterator<Item = i64> {
        let midnights = (from.div_euclid(DAY)..=to.div_euclid(DAY)).map(|day| day * DAY);
        let midnights = midnights.filter(|midnight| {
            let thursday_is_first = midnight.div_euclid(DAY) + 4;
            self.weekdays.contains(&thursday_is_first.rem_euclid(7))
        });
        midnights.flat_map(move |midnight| {
            let first = self.times.partition_point(|time| midnight + time < from);
            self.times[first..].iter().map(move |time| midnight + time).take_while(move |time| *time < to)
        })
    }
}

fn values(field: &str, size: i64) -> Vec<i64> {
    let mut values = Vec::new();
    for item in field.split(',') {
        let (range, step) = item.split_once('/').unwrap_or((item, "1"));
        let (first, last) = match (range, range.split_once('-')) {
            ("*", _) => (0, size - 1),
            (_, Some((first, last))) => (first.parse().unwrap(), last.parse().unwrap()),
            (single, None) => (single.parse().unwrap(), single.parse().unwrap()),
        };
        values.extend((first..=last).step_by(step.parse().unwrap()));
    }
    values.sort_unstable();
    values
}
