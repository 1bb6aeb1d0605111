//! What follows the `?` in a Redis URL.

use redis::parse_redis_url;

/// What a URL asks for beside an address.
#[derive(Default)]
pub(super) struct Parameters {
    /// So many replicas must have a claim before its run starts.
    pub(super) wait_replicas: usize,
    #[cfg(feature = "sentinel")]
    pub(super) sentinel_username: Option<String>,
    #[cfg(feature = "sentinel")]
    pub(super) sentinel_password: Option<String>,
}

/// Known to an address of one server. Programs that share the URL may choose a protocol; this store always speaks the
/// older one.
pub(super) const SERVER: [&str; 2] = ["wait_replicas", "protocol"];

/// Known to an address of sentinels.
#[cfg(feature = "sentinel")]
pub(super) const SENTINEL: [&str; 3] = ["wait_replicas", "sentinel_username", "sentinel_password"];

/// Known to an address of a cluster.
#[cfg(feature = "cluster")]
pub(super) const CLUSTER: [&str; 1] = ["wait_replicas"];

/// Known to an address of a socket; all but the first are the client's own.
pub(super) const SOCKET: [&str; 5] = ["wait_replicas", "db", "user", "pass", "protocol"];

impl Parameters {
    /// Reads a query; one that is not known is refused. No error repeats it: a password may be anywhere in it.
    pub(super) fn read(query: &str, known: &[&str]) -> Result<Self, String> {
        let mut parameters = Self::default();
        // A plus means a space only in forms.
        let query = query.replace('+', "%2B");
        let url = parse_redis_url(&format!("unix:///?{query}")).ok_or("its parameters cannot be read")?;
        for (index, (name, value)) in url.query_pairs().enumerate() {
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
                #[cfg(feature = "sentinel")]
                "sentinel_username" => parameters.sentinel_username = Some(value.into_owned()),
                #[cfg(feature = "sentinel")]
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
        assert_eq!(Parameters::read("", &SERVER).ok().unwrap().wait_replicas, 0);
        assert_eq!(Parameters::read("wait_replicas=2", &SERVER).ok().unwrap().wait_replicas, 2);
        assert_eq!(Parameters::read("db=3&wait_replicas=1", &SOCKET).ok().unwrap().wait_replicas, 1);
    }

    #[cfg(feature = "sentinel")]
    #[test]
    fn a_password_is_decoded_and_a_plus_is_a_plus() {
        let read =
            Parameters::read("sentinel_username=jobs&sentinel_password=a%26b+c", &SENTINEL).ok().unwrap();
        assert_eq!(read.sentinel_username.as_deref(), Some("jobs"));
        assert_eq!(read.sentinel_password.as_deref(), Some("a&b+c"));
    }

    #[test]
    fn an_unknown_parameter_is_refused_with_the_known_ones_and_not_repeated() {
        for query in ["wait_replicas=1&secret=1", "secret", "wait_replicas=secret", "wait_replicas=-1"] {
            let error = Parameters::read(query, &SERVER).err().expect(query);
            assert!(!error.contains("secret") && error.contains("wait_replicas"), "{query}: {error}");
        }
    }
}
