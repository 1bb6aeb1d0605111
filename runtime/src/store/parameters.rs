//! The parameters of a store's URL: ours are taken out, the client's own are left.

use std::time::Duration;

use singleton_jobs_policy::parse_duration;

/// A URL whose parameters are taken one after the other.
///
/// No message repeats a value, or more of a name than its letters: a password may be anywhere in a malformed URL.
pub(super) struct Parameters<'a> {
    url: &'a str,
    left: Vec<&'a str>,
}

impl<'a> Parameters<'a> {
    /// The URL up to its parameters, and those. Where they begin is for each client to say.
    pub(super) fn new(url: &'a str, parameters: Option<&'a str>) -> Self {
        Self { url, left: parameters.map(|all| all.split('&').collect()).unwrap_or_default() }
    }

    /// The value of a parameter of ours.
    pub(super) fn take(&mut self, name: &str) -> Result<Option<&'a str>, String> {
        let (ours, left) = self.left.iter().partition(|parameter| name_of(parameter) == name);
        self.left = left;
        match <Vec<&str>>::as_slice(&ours) {
            [] => Ok(None),
            [parameter] => Ok(Some(parameter.split_once('=').map_or("", |(_, value)| value))),
            _ => Err(format!("`{name}` is given twice")),
        }
    }

    /// The URL with what was not taken.
    pub(super) fn rest(&self) -> String {
        if self.left.is_empty() {
            self.url.to_owned()
        } else {
            format!("{}?{}", self.url, self.left.join("&"))
        }
    }
}

fn name_of(parameter: &str) -> &str {
    parameter.split('=').next().unwrap_or_default()
}

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
        let read = sensible(name, parse_duration(value))?;
        if name == Self::NAMES[0] {
            self.connect = read;
        } else {
            self.response = read;
        }
        Ok(())
    }

    /// Takes both, for a client whose own `connect_timeout=2` is in seconds.
    #[cfg(feature = "postgres")]
    pub(super) fn take_also_in_seconds(parameters: &mut Parameters<'_>) -> Result<Self, String> {
        let mut timeouts = Self::default();
        for name in Self::NAMES {
            match parameters.take(name)? {
                Some(value) if value.parse::<u64>().is_ok() && name == Self::NAMES[0] => {
                    timeouts.set(name, &format!("{value}s"))?;
                }
                Some(value) => timeouts.set(name, value)?,
                None => {}
            }
        }
        Ok(timeouts)
    }
}

/// Below, no server answers in time; above, whoever waits has given up long before.
const SENSIBLE: std::ops::RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(60);

fn sensible(name: &str, read: Result<Duration, String>) -> Result<Duration, String> {
    let expected = match read {
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
    fn what_is_not_taken_is_left_in_its_order() {
        let mut parameters = Parameters::new("redis://host/1", Some("a=1&response_timeout=2s&b&c=3"));
        assert_eq!(parameters.take("response_timeout"), Ok(Some("2s")));
        assert_eq!(parameters.take("b"), Ok(Some("")));
        assert_eq!(parameters.take("d"), Ok(None));
        assert_eq!(parameters.rest(), "redis://host/1?a=1&c=3");
        assert_eq!(Parameters::new("redis://host", None).rest(), "redis://host");
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
