//! The parameters of a URL that are ours, and not the client's.

use super::super::timeouts::Timeouts;
use super::super::tls::Files;

/// A URL without them, and what they say.
pub(super) struct Parameters {
    pub(super) url: String,
    pub(super) schema: Option<String>,
    /// Taken out because the client does not know all of PostgreSQL's words for it.
    pub(super) sslmode: Option<String>,
    pub(super) files: Files,
    /// A bare number is in seconds, as the client has it.
    pub(super) timeouts: Timeouts,
}

impl Parameters {
    pub(super) fn take_from(url: &str) -> Result<Self, String> {
        let (address, parameters) = split(url);
        let (files, others) = Files::take_from(parameters.unwrap_or_default())?;
        let others = others.join("&");
        let mut others = Untaken::new(address, &others);
        let schema = others.take("schema")?.map(str::to_owned);
        let sslmode = others.take("sslmode")?.map(str::to_owned);
        let mut timeouts = Timeouts::default();
        for name in Timeouts::NAMES {
            if let Some(value) = others.take(name)? {
                let in_seconds = name == Timeouts::NAMES[0] && value.parse::<u64>().is_ok();
                timeouts.set(name, &if in_seconds { format!("{value}s") } else { value.to_owned() })?;
            }
        }
        Ok(Self { url: others.rest(), schema, sslmode, files, timeouts })
    }
}

/// A URL whose parameters are taken one after the other.
///
/// No message repeats a value, or more of a name than its letters: a password may be anywhere in a malformed URL.
struct Untaken<'a> {
    url: &'a str,
    left: Vec<&'a str>,
}

impl<'a> Untaken<'a> {
    /// The URL up to its parameters, and those.
    fn new(url: &'a str, parameters: &'a str) -> Self {
        Self { url, left: parameters.split('&').filter(|parameter| !parameter.is_empty()).collect() }
    }

    /// The value of a parameter of ours.
    fn take(&mut self, name: &str) -> Result<Option<&'a str>, String> {
        let (ours, left) = self.left.iter().partition(|parameter| name_of(parameter) == name);
        self.left = left;
        match <Vec<&str>>::as_slice(&ours) {
            [] => Ok(None),
            [parameter] => Ok(Some(parameter.split_once('=').map_or("", |(_, value)| value))),
            _ => Err(format!("`{name}` is given twice")),
        }
    }

    /// The URL with what was not taken.
    fn rest(&self) -> String {
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

/// Splits off the parameters. Where they begin is where the client finds them: after the first `@`, if there is one.
pub(super) fn split(url: &str) -> (&str, Option<&str>) {
    let after_credentials = url.find('@').unwrap_or(0);
    match url[after_credentials..].find('?') {
        Some(length) => {
            let (rest, parameters) = url.split_at(after_credentials + length);
            (rest, Some(&parameters[1..]))
        }
        None => (url, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_taken_is_left_in_its_order() {
        let mut parameters = Untaken::new("postgres://host/1", "a=1&response_timeout=2s&b&c=3");
        assert_eq!(parameters.take("response_timeout"), Ok(Some("2s")));
        assert_eq!(parameters.take("b"), Ok(Some("")));
        assert_eq!(parameters.take("d"), Ok(None));
        assert_eq!(parameters.rest(), "postgres://host/1?a=1&c=3");
        assert_eq!(Untaken::new("postgres://host", "").rest(), "postgres://host");
    }

    #[test]
    fn our_parameters_stand_beside_the_clients_own() {
        for (url, rest, schema, sslmode) in [
            ("postgres://db/shop?schema=jobs", "postgres://db/shop", Some("jobs"), None),
            (
                "postgres://db/shop?keepalives=1&schema=jobs&sslmode=verify-ca&sslrootcert=/ca.pem",
                "postgres://db/shop?keepalives=1",
                Some("jobs"),
                Some("verify-ca"),
            ),
            ("postgres://db/shop?sslmode=disable", "postgres://db/shop", None, Some("disable")),
            (
                "postgres://jobs:p?schema=x@db/shop?schema=jobs",
                "postgres://jobs:p?schema=x@db/shop",
                Some("jobs"),
                None,
            ),
        ] {
            let found = Parameters::take_from(url).unwrap();
            assert_eq!(
                (found.url.as_str(), found.schema.as_deref(), found.sslmode.as_deref()),
                (rest, schema, sslmode)
            );
        }
    }
}
