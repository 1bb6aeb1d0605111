//! The parameters of a store's URL, read in the same way for every store.
//!
//! No message repeats a value, or a name that is not known: a password may be anywhere in a malformed URL.

use percent_encoding::percent_decode_str;

/// Parameters that every store's URL may have.
pub(crate) const COMMON: [&str; 5] =
    ["connect_timeout", "response_timeout", "sslrootcert", "sslcert", "sslkey"];

/// The part of a URL after the `?`, not decoded.
pub(crate) struct UrlParameters<'a>(Vec<&'a str>);

impl<'a> UrlParameters<'a> {
    pub(crate) fn of(query: &'a str) -> Self {
        Self(query.split('&').filter(|parameter| !parameter.is_empty()).collect())
    }

    /// Returns the decoded value of a parameter that may be given once. A plus stands for itself, as everywhere but in forms.
    pub(crate) fn get(&self, name: &str) -> Result<Option<String>, String> {
        let mut given = self.0.iter().filter(|parameter| name_of(parameter) == name);
        let Some(parameter) = given.next() else { return Ok(None) };
        if given.next().is_some() {
            return Err(format!("`{name}` is given twice"));
        }
        let value = parameter.split_once('=').map_or("", |(_, value)| value);
        let value = percent_decode_str(value).decode_utf8();
        value.map(|value| Some(value.into_owned())).map_err(|_| format!("`{name}` is not UTF-8"))
    }

    /// Refuses any parameter but these, and these if they are given twice.
    #[cfg(any(feature = "mysql", feature = "redis"))]
    pub(crate) fn allow(&self, known: &[&str]) -> Result<(), String> {
        if let Some(index) = self.0.iter().position(|parameter| !known.contains(&name_of(parameter))) {
            let (number, known) = (index + 1, known.join(", "));
            return Err(format!("parameter number {number} is not known here; known are {known}"));
        }
        known.iter().try_for_each(|name| self.get(name).map(drop))
    }

    /// Returns the query without these parameters.
    #[cfg(feature = "postgres")]
    pub(crate) fn without(&self, names: &[&str]) -> String {
        let others = self.0.iter().filter(|parameter| !names.contains(&name_of(parameter)));
        others.copied().collect::<Vec<_>>().join("&")
    }
}

fn name_of(parameter: &str) -> &str {
    parameter.split('=').next().unwrap_or_default()
}

/// Returns a host as it is written before a port.
pub(crate) fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

#[cfg(test)]
mod tests;
