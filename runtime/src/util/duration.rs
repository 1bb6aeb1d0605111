//! Durations as text.

use std::time::Duration;

use singleton_jobs_policy::parse_duration;

/// A duration, or a text such as `"10s"`, `"5m"` or `"1h 30m"`.
///
/// A text that cannot be read is an error of the call that completes the setting, such as
/// [`JobBuilder::build`](crate::JobBuilder::build); it does not panic.
pub trait IntoDuration: sealed::Sealed {
    /// Returns the duration, or an error such as `"10": expected a number with a unit, as in "60s" or "5m"`.
    fn into_duration(self) -> Result<Duration, String>;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for std::time::Duration {}
    impl Sealed for &str {}
    impl Sealed for String {}
    impl Sealed for &String {}
}

impl IntoDuration for Duration {
    fn into_duration(self) -> Result<Duration, String> {
        Ok(self)
    }
}

impl IntoDuration for &str {
    fn into_duration(self) -> Result<Duration, String> {
        parse_duration(self).map_err(|problem| format!("\"{self}\": {problem}"))
    }
}

impl IntoDuration for String {
    fn into_duration(self) -> Result<Duration, String> {
        self.as_str().into_duration()
    }
}

impl IntoDuration for &String {
    fn into_duration(self) -> Result<Duration, String> {
        self.as_str().into_duration()
    }
}
