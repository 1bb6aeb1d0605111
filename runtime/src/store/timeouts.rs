//! How long a store may take to answer, the same for every store that is reached over a network.

use std::time::Duration;

use singleton_jobs_policy::parse_duration;

/// How long to wait for a connection, and for the answer to a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Timeouts {
    pub(super) connect: Duration,
    pub(super) response: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { connect: Duration::from_secs(2), response: Duration::from_secs(1) }
    }
}

impl Timeouts {
    pub(super) const NAMES: [&'static str; 2] = ["connect_timeout", "response_timeout"];

    /// Reads one of `connect_timeout=2s` and `response_timeout=500ms`.
    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let read = sensible(name, value)?;
        if name == Self::NAMES[0] {
            self.connect = read;
        } else {
            self.response = read;
        }
        Ok(())
    }
}

/// Below, no server answers in time; above, whoever waits has given up long before.
const SENSIBLE: std::ops::RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(60);

fn sensible(name: &str, value: &str) -> Result<Duration, String> {
    let expected = match parse_duration(value) {
        Ok(duration) if SENSIBLE.contains(&duration) => return Ok(duration),
        Ok(_) => "from 10ms to 60s",
        Err(_) => "a number with a unit, as in 2s or 500ms",
    };
    Err(format!("invalid `{name}`: expected {expected}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeouts(parameters: &str) -> Result<Timeouts, String> {
        let mut timeouts = Timeouts::default();
        for (name, value) in parameters.split('&').filter_map(|parameter| parameter.split_once('=')) {
            timeouts.set(name, value)?;
        }
        Ok(timeouts)
    }

    #[test]
    fn time_outs_are_read_and_each_has_a_default() {
        let (two, half) = (Duration::from_secs(2), Duration::from_millis(500));
        assert_eq!(timeouts("response_timeout=500ms"), Ok(Timeouts { connect: two, response: half }));
        let both = timeouts("connect_timeout=60s&response_timeout=10ms").unwrap();
        assert_eq!(both.connect, Duration::from_secs(60));
        assert_eq!(timeouts(""), Ok(Timeouts::default()));
    }

    #[test]
    fn time_outs_that_make_no_sense_are_refused_by_name_and_not_repeated() {
        for (parameters, says) in [
            ("connect_timeout=0s", "invalid `connect_timeout`: expected from 10ms to 60s"),
            ("response_timeout=9ms", "invalid `response_timeout`: expected from 10ms to 60s"),
            ("response_timeout=61s", "invalid `response_timeout`: expected from 10ms to 60s"),
            (
                "connect_timeout=3",
                "invalid `connect_timeout`: expected a number with a unit, as in 2s or 500ms",
            ),
            (
                "connect_timeout=se@cret",
                "invalid `connect_timeout`: expected a number with a unit, as in 2s or 500ms",
            ),
        ] {
            assert_eq!(timeouts(parameters).unwrap_err(), says, "{parameters}");
        }
    }
}
