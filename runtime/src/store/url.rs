//! The parameters of a store's URL, read in the same way for every store.
//!
//! No message repeats a value, or a name that is not known: a password may be anywhere in a malformed URL.

use percent_encoding::percent_decode_str;

/// Parameters that every store's URL may have.
pub(super) const COMMON: [&str; 5] =
    ["connect_timeout", "response_timeout", "sslrootcert", "sslcert", "sslkey"];

/// What follows the `?`: names and values, not decoded yet.
pub(super) struct Parameters<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Parameters<'a> {
    pub(super) fn of(query: &'a str) -> Self {
        let parameters = query.split('&').filter(|parameter| !parameter.is_empty());
        Self(parameters.map(|parameter| parameter.split_once('=').unwrap_or((parameter, ""))).collect())
    }

    /// The decoded value of a parameter that may be given once. A plus is a plus: it means a space only in forms.
    pub(super) fn get(&self, name: &str) -> Result<Option<String>, String> {
        let mut values = self.0.iter().filter(|(given, _)| *given == name).map(|(_, value)| value);
        let Some(value) = values.next() else { return Ok(None) };
        if values.next().is_some() {
            return Err(format!("`{name}` is given twice"));
        }
        let value = percent_decode_str(value).decode_utf8();
        value.map(|value| Some(value.into_owned())).map_err(|_| format!("`{name}` is not UTF-8"))
    }

    /// Refuses any parameter but these, and these if they are given twice.
    #[cfg(feature = "redis")]
    pub(super) fn allow(&self, known: &[&str]) -> Result<(), String> {
        if let Some(index) = self.0.iter().position(|(name, _)| !known.contains(name)) {
            let (number, known) = (index + 1, known.join(", "));
            return Err(format!("parameter number {number} is not known here; known are {known}"));
        }
        known.iter().try_for_each(|name| self.get(name).map(drop))
    }

    /// The query again, without these parameters.
    #[cfg(feature = "postgres")]
    pub(super) fn without(&self, names: &[&str]) -> String {
        let others = self.0.iter().filter(|(name, _)| !names.contains(name));
        others.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&")
    }
}

/// A host as it stands before a port.
pub(super) fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

#[cfg(test)]
mod tests;
