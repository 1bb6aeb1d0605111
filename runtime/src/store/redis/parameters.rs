//! What follows the `?` in a Redis URL.

use redis::parse_redis_url;

use super::super::timeouts::Timeouts;
use super::super::tls::Files;

/// What a URL asks for beside an address.
#[derive(Default)]
pub(super) struct Parameters {
    /// So many replicas must have a claim before its run starts.
    pub(super) wait_replicas: usize,
    pub(super) timeouts: Timeouts,
    /// Certificates and a key.
    pub(super) files: Files,
    pub(super) sentinel_username: Option<String>,
    pub(super) sentinel_password: Option<String>,
}

/// Known to every kind of address.
pub(super) const EVERYWHERE: &[&str] =
    &["wait_replicas", "connect_timeout", "response_timeout", "sslrootcert", "sslcert", "sslkey"];

/// Known to an address of one server, too. Programs that share the URL may choose a protocol; this store always speaks the
/// older one.
pub(super) const SERVER: &[&str] = &["protocol"];

/// Known to an address of sentinels, too.
pub(super) const SENTINEL: &[&str] = &["sentinel_username", "sentinel_password"];

/// Known to an address of a socket, too; they are the client's own.
pub(super) const SOCKET: &[&str] = &["db", "user", "pass", "protocol"];

impl Parameters {
    /// Reads a query; what is not known is refused. No error repeats it: a password may be anywhere in it.
    pub(super) fn read(query: &str, also_known: &[&str]) -> Result<Self, String> {
        let known = [EVERYWHERE, also_known].concat();
        let (files, others) = Files::take_from(query)?;
        let query = others.join("&");
        let mut parameters = Self { files, ..Self::default() };
        // A plus means a space only in forms.
        let query = query.replace('+', "%2B");
        let url = parse_redis_url(&format!("unix:///?{query}")).ok_or("its parameters cannot be read")?;
        let mut seen = Vec::new();
        for (index, (name, value)) in url.query_pairs().enumerate() {
            if known.contains(&name.as_ref()) && seen.contains(&name) {
                return Err(format!("`{name}` is given twice"));
            }
            seen.push(name.clone());
            if !known.contains(&name.as_ref()) {
                let (number, known) = (index + 1, known.join(", "));
                return Err(format!("parameter number {number} is not known here; known are {known}"));
            }
            match name.as_ref() {
                "wait_replicas" => {
                    let number =
                        value.parse().map_err(|_| "wait_replicas is not a number, as in wait_replicas=1");
                    parameters.wait_replicas = number?;
                }
                "connect_timeout" | "response_timeout" => parameters.timeouts.set(&name, &value)?,
                "sentinel_username" => parameters.sentinel_username = Some(value.into_owned()),
                "sentinel_password" => parameters.sentinel_password = Some(value.into_owned()),
                _ => {}
            }
        }
        Ok(parameters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read() {
        assert_eq!(Parameters::read("", &[]).ok().unwrap().wait_replicas, 0);
        let timeouts = Parameters::read("response_timeout=500ms", &[]).ok().unwrap().timeouts;
        assert_eq!(timeouts.response.as_millis(), 500);
        assert_eq!(Parameters::read("wait_replicas=2", &[]).ok().unwrap().wait_replicas, 2);
        assert_eq!(Parameters::read("db=3&wait_replicas=1", SOCKET).ok().unwrap().wait_replicas, 1);
    }

    #[test]
    fn a_password_is_decoded_and_a_plus_is_a_plus() {
        let read =
            Parameters::read("sentinel_username=jobs&sentinel_password=a%26b+c", SENTINEL).ok().unwrap();
        assert_eq!(read.sentinel_username.as_deref(), Some("jobs"));
        assert_eq!(read.sentinel_password.as_deref(), Some("a&b+c"));
    }

    #[test]
    fn an_unknown_parameter_is_refused_with_the_known_ones_and_not_repeated() {
        for query in [
            "wait_replicas=1&wait_replicas=0",
            "wait_replicas=1&secret=1",
            "secret",
            "wait_replicas=secret",
            "wait_replicas=-1",
        ] {
            let error = Parameters::read(query, &[]).err().expect(query);
            assert!(!error.contains("secret") && error.contains("wait_replicas"), "{query}: {error}");
        }
    }
}
