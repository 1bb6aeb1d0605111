//! Cron patterns in a time zone, and what its clock changes (daylight saving) do to them.

use std::time::Duration;

use jiff::SignedDuration;
use jiff::civil::DateTime;
use jiff::tz::{TimeZone, TimeZoneDatabase};

use crate::fields::Fields;
use crate::{ScheduleError, Timestamp};

/// A cron pattern in a time zone.
///
/// croner parses the pattern and computes matches in wall-clock time, without a zone. The effect of a zone's
/// clock changes is decided here, by one rule:
///
/// * *Fixed* times (no `*` and no `/` in the second, minute and hour fields) follow the wall clock, which
///   never runs backwards for them: a time in the gap runs once, at the first instant after it; a time in
///   the fold runs once, the first time.
/// * All other times follow elapsed time: times in the gap do not run, and times in the repeated hour run
///   twice.
///
/// croner's own zone support is not used: it fires `30 1 * * *` twice on a spring day in New York.
#[derive(Clone, Debug)]
pub(crate) struct ZonedCron {
    pattern: croner::Cron,
    zone: TimeZone,
    fixed: bool,
}

/// The longest time between two ticks of a pattern: 29 February falls on a given weekday every 28 years, or
/// 40 around 2100.
const LONGEST_REST: Duration = Duration::from_secs(50 * 366 * 24 * 3600);
/// A clock change longer ago than this repeats no wall-clock time: two offsets differ by about 26 hours at
/// most.
const LONGEST_FOLD: SignedDuration = SignedDuration::from_hours(48);

impl ZonedCron {
    pub(crate) fn parse(text: &str, tz: &str) -> Result<Self, ScheduleError> {
        let fields = Fields::split(text).map_err(|why| ScheduleError::every(text, why))?;
        let pattern = fields.pattern().map_err(|why| ScheduleError::every(text, why))?;
        let zone = TimeZoneDatabase::bundled().get(tz).ok().filter(|zone| !zone.is_unknown());
        let zone = zone.ok_or_else(|| ScheduleError::zone(tz))?;
        Ok(Self { pattern, zone, fixed: fields.is_fixed() })
    }

    /// The pattern in English, without its zone.
    pub(crate) fn in_words(&self) -> String {
        let words = self.pattern.describe();
        // A pattern without a year is described with all years that there are.
        let words = words.trim_end_matches('.').replace(", in year 1900-2299", "");
        let mut rest = words.chars();
        rest.next().map(|first| first.to_lowercase().chain(rest).collect()).unwrap_or_default()
    }

    pub(crate) fn local_time(&self, tick: Timestamp) -> Option<String> {
        let tick = jiff::Timestamp::try_from(tick).ok()?;
        Some(tick.to_zoned(self.zone.clone()).to_string())
    }

    /// Walks the stretches between the zone's clock changes: inside one, wall clock and instant differ by
    /// a constant.
    pub(crate) fn next_after(&self, instant: Timestamp) -> Option<Timestamp> {
        // Patterns and clock changes are in whole seconds.
        let after = jiff::Timestamp::from_second(instant.as_micros().div_euclid(1_000_000)).ok()?;
        let mut begin = after;
        let mut offset = self.zone.to_offset(after);
        let shown = offset.to_datetime(after);
        let repeated = self.wall_reached_before(after).filter(|reached| *reached > shown);
        let mut wall = repeated.unwrap_or(shown);
        let mut found = self.first_match(wall, repeated.is_some())?;

        let mut changes = self.zone.following(after);
        loop {
            let tick = offset.to_timestamp(found).ok()?.max(begin);
            let Some(change) = changes.next().filter(|change| tick >= change.timestamp()) else {
                return Some(Timestamp::from_micros(tick.as_microsecond()));
            };
            begin = change.timestamp();
            offset = change.offset();
            // A fixed time in the gap is late, not lost.
            let shown = offset.to_datetime(begin);
            if !self.fixed && (shown <= wall || shown > found) {
                found = self.first_match(shown, true)?;
                wall = shown;
            }
        }
    }

    /// Searches back in doubling steps for a stretch with a tick, then bisects it.
    pub(crate) fn newest_at(&self, instant: Timestamp) -> Option<Timestamp> {
        let due_after = |earlier| self.next_after(earlier).filter(|tick| *tick <= instant);
        let mut back = Duration::from_secs(1);
        let mut none_after = instant;
        let mut newest = loop {
            let earlier = instant - back;
            if let Some(tick) = due_after(earlier) {
                break tick;
            }
            if back == LONGEST_REST {
                return None;
            }
            none_after = earlier;
            back = (back * 2).min(LONGEST_REST);
        };
        while let Some(tick) = due_after(newest) {
            newest = tick;
            let middle = newest + none_after.since(newest) / 2;
            match due_after(middle) {
                Some(tick) => newest = tick,
                None => none_after = middle,
            }
        }
        Some(newest)
    }

    /// For fixed times: the latest the wall clock has shown before this instant's stretch. In a repeated
    /// hour it is later than what the clock shows now.
    ///
    /// It looks forward from two days ago: jiff's `preceding` invents changes in the year in which a zone's
    /// table ends (2022 in Ciudad Juárez).
    fn wall_reached_before(&self, instant: jiff::Timestamp) -> Option<DateTime> {
        if !self.fixed {
            return None;
        }
        let begin = instant.checked_sub(LONGEST_FOLD).ok()?;
        let changes = self.zone.following(begin).take_while(|change| change.timestamp() <= instant);
        let mut offset = self.zone.to_offset(begin);
        let readings = changes
            .map(|change| std::mem::replace(&mut offset, change.offset()).to_datetime(change.timestamp()));
        readings.max()
    }

    fn first_match(&self, wall: DateTime, inclusive: bool) -> Option<DateTime> {
        self.pattern.find_next_occurrence(&wall, inclusive).ok()
    }
}
