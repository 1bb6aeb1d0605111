//! The parameters of a URL that are ours, and not the client's.

use super::super::tls::Files;

/// A URL without them, and what they say.
pub(super) struct Parameters {
    pub(super) url: String,
    pub(super) schema: Option<String>,
    /// Taken out because the client does not know all of PostgreSQL's words for it.
    pub(super) sslmode: Option<String>,
    pub(super) files: Files,
}

impl Parameters {
    pub(super) fn take_from(url: &str) -> Result<Self, String> {
        let (address, parameters) = split(url);
        let (files, mut others) = Files::take_from(parameters.unwrap_or_default())?;
        let mut take = |name: &str| {
            let is_it =
                |parameter: &&str| parameter.strip_prefix(name).is_some_and(|rest| rest.starts_with('='));
            let value = others.iter().copied().find(is_it).map(|it| it[name.len() + 1..].to_owned());
            others.retain(|parameter| !is_it(parameter));
            value
        };
        let (schema, sslmode) = (take("schema"), take("sslmode"));
        let url =
            if others.is_empty() { address.to_owned() } else { format!("{address}?{}", others.join("&")) };
        Ok(Self { url, schema, sslmode, files })
    }
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
    fn our_parameters_stand_beside_the_clients_own() {
        for (url, rest, schema, sslmode) in [
            ("postgres://db/shop?schema=jobs", "postgres://db/shop", Some("jobs"), None),
            (
                "postgres://db/shop?connect_timeout=3&schema=jobs&sslmode=verify-ca&sslrootcert=/ca.pem",
                "postgres://db/shop?connect_timeout=3",
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
