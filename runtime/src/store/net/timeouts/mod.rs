//! Timeouts, the same for every store that is reached over a network.

use std::ops::RangeInclusive;
use std::time::Duration;

use singleton_jobs_policy::parse_duration;

use super::url::UrlParameters;

/// Below, no server answers in time. Above, every caller has stopped waiting.
const SENSIBLE: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(60);

/// Timeouts of a connection, and of the answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timeouts {
    pub(crate) connect: Duration,
    pub(crate) response: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { connect: Duration::from_secs(2), response: Duration::from_secs(1) }
    }
}

impl Timeouts {
    /// Reads `connect_timeout=2s` and `response_timeout=500ms`. A bare number of the former is in `unit`, if there is one.
    pub(crate) fn read(parameters: &UrlParameters<'_>, unit: &str) -> Result<Self, String> {
        let read = |name: &str, unit: &str, default: Duration| {
            let Some(mut value) = parameters.get(name)? else { return Ok(default) };
            if value.parse::<u64>().is_ok() {
                value.push_str(unit);
            }
            let expected = match parse_duration(&value) {
                Ok(duration) if SENSIBLE.contains(&duration) => return Ok(duration),
                Ok(_) => "from 10ms to 60s",
                Err(_) => "a number with a unit, as in 2s or 500ms",
            };
            Err(format!("invalid `{name}`: expected {expected}"))
        };
        let Self { connect, response } = Self::default();
        Ok(Self {
            connect: read("connect_timeout", unit, connect)?,
            response: read("response_timeout", "", response)?,
        })
    }
}

#[cfg(test)]
mod tests;
