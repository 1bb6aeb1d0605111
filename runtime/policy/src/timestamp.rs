//! Instants in UTC, in microseconds.

use std::fmt;
use std::ops::{Add, Sub};
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// An instant in UTC, in whole microseconds since 1970: the resolution of every store's clock.
///
/// ```
/// # use singleton_jobs_policy::Timestamp;
/// let tick = Timestamp::from_micros(1_700_000_000_000_000);
/// assert_eq!(tick.to_string(), "2023-11-14T22:13:20Z");
/// assert_eq!("2023-11-14T22:13:20Z".parse(), Ok(tick));
///
/// let later = tick + std::time::Duration::from_secs(40);
/// assert_eq!(later.to_string(), "2023-11-14T22:14:00Z");
/// assert_eq!(later - tick, std::time::Duration::from_secs(40));
/// ```
///
/// Arithmetic saturates at the ends of the range, which lie 292,000 years away.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, serde::Serialize, serde::Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The instant this many microseconds after 1970-01-01T00:00:00Z.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since 1970-01-01T00:00:00Z.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// The machine's own clock. Ticks are decided by the store's clock, not by this one.
    pub fn now() -> Self {
        SystemTime::now().into()
    }

    /// The time since `earlier`; zero if that is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

impl Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(micros(duration)))
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Self;

    fn sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(micros(duration)))
    }
}

/// The time between two instants; zero if the other one is later, as for [`std::time::Instant`].
impl Sub for Timestamp {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.since(earlier)
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        match time.duration_since(UNIX_EPOCH) {
            Ok(after) => Self(micros(after)),
            Err(before) => Self(-micros(before.duration())),
        }
    }
}

impl From<Timestamp> for SystemTime {
    fn from(timestamp: Timestamp) -> Self {
        let distance = Duration::from_micros(timestamp.0.unsigned_abs());
        if timestamp.0 >= 0 { UNIX_EPOCH + distance } else { UNIX_EPOCH - distance }
    }
}

/// Drops what is finer than a microsecond.
impl From<jiff::Timestamp> for Timestamp {
    fn from(timestamp: jiff::Timestamp) -> Self {
        Self(timestamp.as_microsecond())
    }
}

/// Fails outside of the years −9999 to 9999.
impl TryFrom<Timestamp> for jiff::Timestamp {
    type Error = jiff::Error;

    fn try_from(timestamp: Timestamp) -> Result<Self, jiff::Error> {
        Self::from_microsecond(timestamp.0)
    }
}

/// A text that is not a [`Timestamp`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseTimestampError(String);

impl fmt::Display for ParseTimestampError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid timestamp {:?}: expected RFC 3339, as in \"2026-01-31T12:00:00Z\"", self.0)
    }
}

impl std::error::Error for ParseTimestampError {}

/// Reads RFC 3339, with any offset from UTC.
impl FromStr for Timestamp {
    type Err = ParseTimestampError;

    fn from_str(text: &str) -> Result<Self, ParseTimestampError> {
        let parsed: Result<jiff::Timestamp, _> = text.parse();
        parsed.map(Self::from).map_err(|_| ParseTimestampError(text.to_owned()))
    }
}

/// RFC 3339 in UTC, with a fraction only when there is one.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::try_from(*self) {
            Ok(timestamp) => timestamp.fmt(f),
            Err(_) => write!(f, "{}µs", self.0),
        }
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const EARLIEST: Timestamp = Timestamp::from_micros(i64::MIN);
    const LATEST: Timestamp = Timestamp::from_micros(i64::MAX);

    #[test]
    fn displayed_timestamp_parses_to_itself() {
        for micros in [0, 1, -1, 1_700_000_000_000_000, 1_700_000_000_123_456, -62_000_000_000_000_000] {
            let timestamp = Timestamp::from_micros(micros);
            assert_eq!(timestamp.to_string().parse(), Ok(timestamp));
        }
    }

    #[test]
    fn offset_from_utc_is_applied() {
        assert_eq!("2023-11-14T23:13:20+01:00".parse(), Ok(Timestamp::from_micros(1_700_000_000_000_000)));
    }

    #[test]
    fn text_that_is_not_rfc_3339_is_an_error_that_repeats_it() {
        for text in ["", "yesterday", "2023-11-14T22:13:20", "2023-13-14T22:13:20Z"] {
            let error = text.parse::<Timestamp>().unwrap_err().to_string();
            assert!(error.contains(&format!("{text:?}")) && error.contains("RFC 3339"), "{error}");
        }
    }

    #[test]
    fn arithmetic_saturates() {
        assert_eq!((LATEST + SECOND, EARLIEST - SECOND), (LATEST, EARLIEST));
        let now = Timestamp::now();
        assert_eq!((now + SECOND - now, now - (now + SECOND)), (SECOND, Duration::ZERO));
        assert_eq!(now - SECOND + SECOND, now);
    }

    #[test]
    fn conversions_to_other_types_of_time_lose_nothing() {
        for micros in [0, -1_500_000, 1_700_000_000_123_456] {
            let timestamp = Timestamp::from_micros(micros);
            assert_eq!(Timestamp::from(SystemTime::from(timestamp)), timestamp);
            assert_eq!(Timestamp::from(jiff::Timestamp::try_from(timestamp).unwrap()), timestamp);
        }
    }

    #[test]
    fn timestamp_beyond_the_calendar_is_no_jiff_timestamp() {
        assert!(jiff::Timestamp::try_from(LATEST).is_err() && jiff::Timestamp::try_from(EARLIEST).is_err());
    }
}
