//! Durations as text: `"60s"`, `"5m"`.

use std::time::Duration;

/// Parses a duration such as `"60s"`, `"5m"` or `"1h 30m"`.
///
/// The error is the second half of a sentence, to follow a name and the text: "expected …".
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let duration = humantime::parse_duration(text)
        .map_err(|_| "expected a number with a unit, as in \"60s\" or \"5m\"".to_owned())?;
    if duration.subsec_nanos() % 1_000_000 != 0 {
        return Err("expected whole milliseconds, as in \"250ms\" or \"60s\"".to_owned());
    }
    Ok(duration)
}

/// The shortest text that reads back as this duration.
pub(crate) fn show(duration: Duration) -> String {
    humantime::format_duration(duration).to_string()
}
