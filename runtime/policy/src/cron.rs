use std::str::FromStr;

use croner::parser::{CronParser, Year};
use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone, TimeZoneDatabase};

use crate::{ScheduleError, Timestamp};

/// A cron pattern in a time zone.
///
/// croner parses the pattern and walks the calendar, in wall-clock time without a zone. What a zone's
/// clock changes do to that is decided here, by one rule:
///
/// * *Fixed* times (no `*` and no `/` in the second, minute and hour fields) follow the wall clock, which
///   never runs backwards for them: a time in the gap happens once, at the first instant after it; a time
///   in the fold happens once, the first time round.
/// * Everything else follows elapsed time: what the gap leaves out does not happen, and the repeated hour
///   happens twice.
///
/// croner's own zone support is not used: it fires `30 1 * * *` twice on a spring day in New York.
#[derive(Clone, Debug)]
pub(crate) struct Cron {
    pattern: croner::Cron,
    zone: TimeZone,
    fixed: bool,
}

const FIELDS: [(&str, u32, u32); 6] = [
    ("second", 0, 59),
    ("minute", 0, 59),
    ("hour", 0, 23),
    ("day", 1, 31),
    ("month", 1, 12),
    ("weekday", 0, 7),
];

impl Cron {
    pub(crate) fn parse(text: &str, tz: &str) -> Result<Self, ScheduleError> {
        let pattern = expand_nickname(text)?;
        let mut fields: Vec<&str> = pattern.split_whitespace().collect();
        match fields.len() {
            5 => fields.insert(0, "0"),
            6 => {}
            count => {
                let why = format!("expected 5 or 6 fields, found {count}");
                return Err(ScheduleError::every(text, why));
            }
        }
        for (index, field) in fields.iter().enumerate() {
            check_field(index, field).map_err(|why| ScheduleError::every(text, why))?;
        }
        let parsed = parse_pattern(&fields.join(" ")).map_err(|error| ScheduleError::every(text, error))?;
        let fixed = !fields[..3].iter().any(|field| field.contains(['*', '/']));
        let zone = TimeZoneDatabase::bundled().get(tz).map_err(|_| ScheduleError::zone(tz))?;
        Ok(Self { pattern: parsed, zone, fixed })
    }

    /// Walks the stretches between the zone's clock changes: inside one, wall clock and instant differ by
    /// a constant.
    pub(crate) fn next_after(&self, instant: Timestamp) -> Option<Timestamp> {
        let after = jiff::Timestamp::from_microsecond(instant.as_micros()).ok()?;
        let mut offset = self.zone.to_offset(after);
        let mut wall = whole_seconds(offset.to_datetime(after));
        let mut inclusive = false;
        if let Some(reached) = self.wall_reached_before(after).filter(|reached| *reached > wall) {
            (wall, inclusive) = (reached, true);
        }
        let mut begin = after;
        let mut changes = self.zone.following(after);
        loop {
            let found = self.pattern.find_next_occurrence(&wall, inclusive).ok()?;
            let tick = offset.to_timestamp(found).ok()?.max(begin);
            match changes.next() {
                Some(change) if tick >= change.timestamp() => {
                    begin = change.timestamp();
                    wall = if self.fixed { offset } else { change.offset() }.to_datetime(begin);
                    (offset, inclusive) = (change.offset(), true);
                }
                _ => return Some(Timestamp::from_micros(tick.as_microsecond())),
            }
        }
    }

    /// For fixed times: the wall clock's reading at the end of the stretch before this instant's. In a
    /// repeated hour it is later than what the clock shows now.
    fn wall_reached_before(&self, instant: jiff::Timestamp) -> Option<DateTime> {
        if !self.fixed {
            return None;
        }
        let just_after = instant.checked_add(jiff::SignedDuration::from_nanos(1)).ok()?;
        let change = self.zone.preceding(just_after).next()?.timestamp();
        let before: Offset =
            self.zone.to_offset(change.checked_sub(jiff::SignedDuration::from_nanos(1)).ok()?);
        Some(before.to_datetime(change))
    }
}

fn whole_seconds(wall: DateTime) -> DateTime {
    wall.with().subsec_nanosecond(0).build().expect("every second starts at zero nanoseconds")
}

fn parse_pattern(fields: &str) -> Result<croner::Cron, String> {
    let parser = CronParser::builder().year(Year::Disallowed).build();
    parser.parse(fields).map_err(|error| error.to_string())
}

fn expand_nickname(text: &str) -> Result<&str, ScheduleError> {
    let text = text.trim();
    if !text.starts_with('@') {
        return Ok(text);
    }
    Ok(match text.to_ascii_lowercase().as_str() {
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@monthly" => "0 0 1 * *",
        "@weekly" => "0 0 * * 0",
        "@daily" | "@midnight" => "0 0 * * *",
        "@hourly" => "0 * * * *",
        _ => {
            let why = "expected one of @hourly, @daily, @weekly, @monthly, @yearly";
            return Err(ScheduleError::every(text, why));
        }
    })
}

/// Says which field is wrong and, for a number, by how much; croner only says that one is.
fn check_field(index: usize, field: &str) -> Result<(), String> {
    let (name, lowest, highest) = FIELDS[index];
    let alone: Vec<&str> = (0..FIELDS.len()).map(|i| if i == index { field } else { "*" }).collect();
    if parse_pattern(&alone.join(" ")).is_ok() {
        return Ok(());
    }
    let base = field.split(['#']).next().unwrap_or(field);
    let values = base.split(',').flat_map(|part| part.split('/').next().unwrap_or(part).split('-'));
    for value in values.filter_map(|value| u32::from_str(value).ok()) {
        if value < lowest || value > highest {
            return Err(format!("{name} {value} is out of range {lowest}–{highest}"));
        }
    }
    Err(format!("\"{field}\" is not a valid {name} field"))
}
