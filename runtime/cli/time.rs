//! Times and durations, as people read and write them.

use std::time::Duration;

use jobs::Timestamp;
use jobs::jiff::{self, civil, tz::TimeZone};

/// `2026-11-17 03:00:00`, in this zone.
pub(crate) fn absolute(instant: Timestamp, zone: &TimeZone) -> String {
    let Ok(at) = jiff::Timestamp::try_from(instant) else { return instant.to_string() };
    at.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// `in 5m 3s`, `2h 4m ago`, `now`.
pub(crate) fn relative(instant: Timestamp, now: Timestamp) -> String {
    match (instant.since(now), now.since(instant)) {
        (Duration::ZERO, past) if past < Duration::from_secs(1) => "now".to_owned(),
        (Duration::ZERO, past) => format!("{} ago", span(past)),
        (future, _) => format!("in {}", span(future)),
    }
}

/// `1d 2h`, `1h 2m`, `3m 4s`, `3.2s`, `40ms`.
pub(crate) fn span(duration: Duration) -> String {
    match duration.as_secs() {
        0 => format!("{}ms", duration.as_millis()),
        1..10 => format!("{:.1}s", duration.as_secs_f64()),
        seconds @ 10..60 => format!("{seconds}s"),
        seconds @ 60..3600 => format!("{}m {}s", seconds / 60, seconds % 60),
        seconds @ 3600..86400 => format!("{}h {}m", seconds / 3600, seconds % 3600 / 60),
        seconds => format!("{}d {}h", seconds / 86400, seconds % 86400 / 3600),
    }
}

/// Which day a time without a date is on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nearest {
    /// Within the last 24 hours.
    Past,
    /// Within the next 24 hours.
    Future,
}

/// Reads an instant: RFC 3339, a date and time in this zone, or a time of day in this zone.
pub(crate) fn parse(
    text: &str,
    zone: &TimeZone,
    now: Timestamp,
    nearest: Nearest,
) -> Result<Timestamp, String> {
    if let Ok(instant) = text.parse::<Timestamp>() {
        return Ok(instant);
    }
    let in_zone = |at: civil::DateTime| {
        let zoned = at.to_zoned(zone.clone()).map_err(|error| error.to_string())?;
        Ok(Timestamp::from(zoned.timestamp()))
    };
    if let Ok(at) = text.parse::<civil::DateTime>() {
        return in_zone(at);
    }
    let Ok(time) = text.parse::<civil::Time>() else {
        return Err(format!(
            "\"{text}\" is not a time; expected 03:00, 03:00:30, \"2026-11-17 03:00\" or 2026-11-17T03:00:00Z"
        ));
    };
    let today = jiff::Timestamp::try_from(now).map_err(|error| error.to_string())?.to_zoned(zone.clone());
    let at = in_zone(today.date().to_datetime(time))?;
    let other = match nearest {
        Nearest::Past if at > now => today.date().yesterday(),
        Nearest::Future if at <= now => today.date().tomorrow(),
        _ => return Ok(at),
    };
    in_zone(other.map_err(|error| error.to_string())?.to_datetime(time))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-11-17T12:00:00Z";

    fn read(text: &str, zone: &str) -> String {
        let zone = TimeZone::get(zone).unwrap();
        parse(text, &zone, NOW.parse().unwrap(), Nearest::Past)
            .map_or_else(|error| error, |at| at.to_string())
    }

    #[test]
    fn time_of_day_is_that_of_the_last_24_hours_in_the_zone() {
        assert_eq!(read("03:00", "UTC"), "2026-11-17T03:00:00Z");
        assert_eq!(read("13:00", "UTC"), "2026-11-16T13:00:00Z", "it is not 13:00 yet");
        assert_eq!(read("13:00", "Europe/Berlin"), "2026-11-17T12:00:00Z");
        assert_eq!(read("2026-11-01 03:00", "Europe/Berlin"), "2026-11-01T02:00:00Z");
        assert_eq!(read("2026-11-01T03:00:00+05:00", "UTC"), "2026-10-31T22:00:00Z");
        assert!(read("noon", "UTC").contains("is not a time"));
        let future =
            |text| parse(text, &TimeZone::UTC, NOW.parse().unwrap(), Nearest::Future).unwrap().to_string();
        assert_eq!(future("03:00"), "2026-11-18T03:00:00Z");
        assert_eq!(future("13:00"), "2026-11-17T13:00:00Z");
    }

    #[test]
    fn durations_are_short() {
        let spans =
            [40, 3_200, 59_000, 184_000, 3_780_000, 93_600_000].map(|ms| span(Duration::from_millis(ms)));
        assert_eq!(spans, ["40ms", "3.2s", "59s", "3m 4s", "1h 3m", "1d 2h"]);
        let now = Timestamp::from_micros(1_000_000_000);
        assert_eq!(relative(now + Duration::from_secs(90), now), "in 1m 30s");
        assert_eq!(relative(now - Duration::from_secs(90), now), "1m 30s ago");
        assert_eq!(relative(now, now), "now");
    }
}
