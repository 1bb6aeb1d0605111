//! Durations as text: `"60s"`, `"5m"`.

use std::time::Duration;

/// No accepted duration needs more digits. humantime 2.4 panics on some of 2^64 seconds, which need at least 17.
const MOST_DIGITS: usize = 16;

/// Parses a duration such as `"60s"`, `"5m"` or `"1h 30m"`.
///
/// The error is the second half of a sentence, to follow a name and the text: "expected …".
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let is_short = text.bytes().filter(u8::is_ascii_digit).count() <= MOST_DIGITS;
    let duration = is_short.then(|| humantime::parse_duration(text).ok()).flatten();
    let duration = duration.ok_or("expected a number with a unit, as in \"60s\" or \"5m\"")?;
    if duration.subsec_nanos() % 1_000_000 != 0 {
        return Err("expected whole milliseconds, as in \"250ms\" or \"60s\"".to_owned());
    }
    Ok(duration)
}

/// The shortest text that reads back as this duration.
pub(crate) fn show(duration: Duration) -> String {
    humantime::format_duration(duration).to_string()
}
