//! Schedules: cron patterns, nicknames and intervals.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::zoned_cron::ZonedCron;
use crate::{Timestamp, parse_duration};

/// When a job is due: cron with 5 or 6 fields, a nickname such as `@hourly`, or an interval such as `10m`.
///
/// The same text gives the same instants on every server. Intervals are counted from 1970, so they need no
/// common start.
///
/// ```
/// # use singleton_jobs_policy::{Schedule, Timestamp};
/// let hourly = Schedule::parse("0 * * * *", None)?;
/// let next = hourly.next_after(Timestamp::from_micros(1_700_000_000_000_000)).unwrap();
/// assert_eq!(next.to_string(), "2023-11-14T23:00:00Z");
/// # Ok::<(), singleton_jobs_policy::ScheduleError>(())
/// ```
#[derive(Clone)]
pub struct Schedule {
    /// With its time zone, as it is shown. Stores compare it at every tick.
    text: Arc<str>,
    tz: Option<String>,
    kind: Kind,
}

#[derive(Clone)]
enum Kind {
    Interval(Duration),
    Cron(Box<ZonedCron>),
}

/// A text that is not a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleError {
    argument: &'static str,
    message: String,
}

impl ScheduleError {
    pub(crate) fn every(text: &str, why: impl fmt::Display) -> Self {
        Self { argument: "every", message: format!("invalid `every` \"{text}\": {why}") }
    }

    /// The attribute's argument at fault: `every` or `tz`.
    pub fn argument(&self) -> &'static str {
        self.argument
    }
}

impl fmt::Display for ScheduleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ScheduleError {}

const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);
const LONGEST_INTERVAL: Duration = Duration::from_secs(366 * 24 * 3600);

/// The instant from which the first tick is searched when a schedule is checked. It is fixed, so that a
/// program that compiles today compiles tomorrow.
const REFERENCE: Timestamp = Timestamp::from_micros(1_704_067_200_000_000);

impl Schedule {
    /// Parses the result of [`text`](Self::text).
    pub fn from_text(text: &str) -> Option<Self> {
        match text.strip_prefix("every ") {
            Some(interval) => Self::parse(interval, None).ok(),
            None => text.rsplit_once(' ').and_then(|(cron, tz)| Self::parse(cron, Some(tz)).ok()),
        }
    }

    /// Parses a schedule. Cron is in UTC unless an IANA time zone is given.
    pub fn parse(text: &str, tz: Option<&str>) -> Result<Self, ScheduleError> {
        let kind = if is_cron(text) {
            Kind::Cron(Box::new(ZonedCron::parse(text, tz.unwrap_or("UTC"))?))
        } else {
            Kind::Interval(parse_interval(text, tz)?)
        };
        let shown = match &kind {
            Kind::Interval(_) => format!("every {}", text.trim()),
            Kind::Cron(_) => format!("{} {}", text.trim(), tz.unwrap_or("UTC")),
        };
        let schedule = Self { text: shown.into(), tz: tz.map(str::to_owned), kind };
        if schedule.next_after(REFERENCE).is_none() {
            return Err(ScheduleError {
                argument: "every",
                message: format!("`every` \"{text}\" never fires"),
            });
        }
        Ok(schedule)
    }

    /// The first tick after this instant. `None` only past the end of the calendar: cron ticks lie in the
    /// years 1900 to 2299.
    pub fn next_after(&self, instant: Timestamp) -> Option<Timestamp> {
        match &self.kind {
            Kind::Interval(every) => {
                let every = i64::try_from(every.as_micros()).ok()?;
                let passed = instant.as_micros().div_euclid(every);
                passed.checked_add(1)?.checked_mul(every).map(Timestamp::from_micros)
            }
            Kind::Cron(cron) => cron.next_after(instant),
        }
    }

    /// The last tick at or before this instant; `None` if there was none in the last fifty years.
    pub fn newest_at(&self, instant: Timestamp) -> Option<Timestamp> {
        match &self.kind {
            Kind::Interval(every) => {
                let every = i64::try_from(every.as_micros()).ok()?;
                let passed = instant.as_micros().div_euclid(every);
                passed.checked_mul(every).map(Timestamp::from_micros)
            }
            Kind::Cron(cron) => cron.newest_at(instant),
        }
    }

    /// The shortest gap between two of the next hundred ticks.
    pub fn shortest_gap(&self) -> Duration {
        if let Kind::Interval(every) = &self.kind {
            return *every;
        }
        let ticks = std::iter::successors(self.next_after(REFERENCE), |tick| self.next_after(*tick));
        let ticks: Vec<_> = ticks.take(100).collect();
        ticks.windows(2).map(|pair| pair[1].since(pair[0])).min().unwrap_or(Duration::MAX)
    }

    /// The schedule as it is shown: `0 3 * * * Europe/Berlin`, or `every 10m`.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The schedule as it is shown, as a shared string.
    pub fn text(&self) -> Arc<str> {
        self.text.clone()
    }

    /// The wall-clock time of a tick in the schedule's time zone, as in
    /// `2026-07-01T03:00:00+02:00[Europe/Berlin]`; `None` for an interval and in UTC.
    pub fn local_time(&self, tick: Timestamp) -> Option<String> {
        match &self.kind {
            Kind::Cron(cron) if self.tz.as_deref().is_some_and(|tz| tz != "UTC") => cron.local_time(tick),
            _ => None,
        }
    }

    /// The schedule in English: `at 03:00 (Europe/Berlin)`, or `every 10m`.
    pub fn in_words(&self) -> String {
        match &self.kind {
            Kind::Interval(_) => self.text.to_string(),
            Kind::Cron(cron) => format!("{} ({})", cron.in_words(), self.tz.as_deref().unwrap_or("UTC")),
        }
    }

    /// Parses another text in the same time zone, for a schedule that configuration overrides.
    pub fn overridden(&self, text: &str) -> Result<Self, ScheduleError> {
        Self::parse(text, self.tz.as_deref().filter(|_| is_cron(text)))
    }
}

/// Four words and more are cron, and mistakes in them are reported as such; `1 day 2 hours` is an interval.
fn is_cron(text: &str) -> bool {
    let words = text.split_whitespace().count();
    text.trim_start().starts_with('@') || words >= 4 && parse_duration(text).is_err()
}

fn parse_interval(text: &str, tz: Option<&str>) -> Result<Duration, ScheduleError> {
    let interval = parse_duration(text).map_err(|_| {
        let why = "expected cron with 5 or 6 fields as in \"0 * * * *\", a nickname as in \"@hourly\", or an \
                   interval as in \"10m\"";
        ScheduleError::every(text, why)
    })?;
    if tz.is_some() {
        let message = format!("`tz` means nothing with the interval \"{text}\"; remove it or use cron");
        return Err(ScheduleError { argument: "tz", message });
    }
    if interval < SHORTEST_INTERVAL {
        return Err(ScheduleError::every(text, "an interval is at least \"10ms\""));
    }
    if interval > LONGEST_INTERVAL {
        return Err(ScheduleError::every(text, "an interval is at most \"366days\""));
    }
    Ok(interval)
}

impl ScheduleError {
    pub(crate) fn zone(tz: &str) -> Self {
        let message = format!("invalid `tz` \"{tz}\": expected an IANA time zone, as in \"Europe/Berlin\"");
        Self { argument: "tz", message }
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Not derived: the cron parser's own form is 16 kB long.
impl fmt::Debug for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Schedule({self})")
    }
}
