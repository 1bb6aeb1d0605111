//! Redis URLs, and how to speak of them without their passwords.

use redis::io::tcp::TcpSettings;
use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion};

use super::super::parameters::{Parameters, Timeouts};

/// Takes our parameters out of a URL, and refuses those that the client does not know either: it would ignore them.
pub(super) fn timeouts(url: &str) -> Result<(String, Timeouts), String> {
    let (url, fragment) = url.split_once('#').map_or((url, None), |(url, fragment)| (url, Some(fragment)));
    let (rest, parameters) =
        url.split_once('?').map_or((url, None), |(rest, parameters)| (rest, Some(parameters)));
    let mut parameters = Parameters::new(rest, parameters);
    let timeouts = Timeouts::take(&mut parameters)?;
    let socket = rest.starts_with("redis+unix:") || rest.starts_with("unix:");
    let clients: &[&str] = if socket { &["db", "user", "pass", "protocol"] } else { &["protocol"] };
    parameters.refuse_all_but(clients, &Timeouts::NAMES)?;
    let fragment = fragment.map(|fragment| format!("#{fragment}")).unwrap_or_default();
    Ok((parameters.rest() + &fragment, timeouts))
}

/// Reads a URL. The error never repeats it, because a password may be anywhere in a malformed one.
pub(super) fn parse(url: &str) -> Result<ConnectionInfo, String> {
    let info = url.into_connection_info().map_err(|error| {
        let problem = error.to_string().replace(" - InvalidClientConfig", "");
        format!("{problem}; expected `redis://user:password@host:port/database`")
    })?;
    // Servers that do not know RESP3's greeting repeat it in their error, password included.
    let redis = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP2);
    let tcp = TcpSettings::default().set_nodelay(true);
    Ok(info.set_redis_settings(redis).set_tcp_settings(tcp))
}

/// The URL again, without the password.
pub(super) fn without_password(info: &ConnectionInfo) -> String {
    let redis = info.redis_settings();
    let user = redis.username().map(|user| format!("{user}@")).unwrap_or_default();
    let db = redis.db();
    match info.addr() {
        ConnectionAddr::Tcp(host, port) => format!("redis://{user}{}:{port}/{db}", bracketed(host)),
        ConnectionAddr::TcpTls { host, port, .. } => {
            format!("rediss://{user}{}:{port}/{db}", bracketed(host))
        }
        ConnectionAddr::Unix(path) => format!("redis+unix://{}?db={db}", path.display()),
        _ => "redis".to_owned(),
    }
}

fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_is_the_url_without_its_password() {
        for (url, location) in [
            ("redis://localhost", "redis://localhost:6379/0"),
            ("redis://:secret@10.0.0.1:7000/3", "redis://10.0.0.1:7000/3"),
            ("redis://jobs:secret@cache.internal/", "redis://jobs@cache.internal:6379/0"),
            ("redis://[::1]:6380", "redis://[::1]:6380/0"),
            ("redis+unix:///run/redis.sock?db=2&pass=secret", "redis+unix:///run/redis.sock?db=2"),
        ] {
            assert_eq!(without_password(&parse(url).unwrap()), location);
        }
    }

    #[test]
    fn a_malformed_url_is_not_repeated() {
        for url in ["redis:secret@host", "http://:secret@host", "redis://:secret@host/first", "secret"] {
            let error = parse(url).unwrap_err();
            assert!(!error.contains("secret") && error.contains("redis://"), "{url}: {error}");
        }
    }

    #[test]
    fn time_outs_are_parameters_and_what_nobody_knows_is_refused() {
        for (url, rest, response) in [
            ("redis://:a@b/3", "redis://:a@b/3", 1000),
            ("redis://host?response_timeout=250ms", "redis://host", 250),
            ("redis://host/0?protocol=resp3&response_timeout=3s", "redis://host/0?protocol=resp3", 3000),
            ("unix:///r.sock?db=2&response_timeout=3s", "unix:///r.sock?db=2", 3000),
            ("redis://host?response_timeout=3s#insecure", "redis://host#insecure", 3000),
        ] {
            let (left, timeouts) = timeouts(url).expect(url);
            assert_eq!((left.as_str(), timeouts.response.as_millis()), (rest, response));
        }
        for (url, says) in [
            (
                "redis://host?db=2",
                "unknown parameter `db`; expected `connect_timeout`, `response_timeout`, `protocol`",
            ),
            ("redis://host?connect_timeout=0s", "invalid `connect_timeout`: expected from 10ms to 60s"),
        ] {
            assert_eq!(timeouts(url).expect_err(url), says);
        }
        let error = timeouts("redis://:se?cret@host").expect_err("a password with a question mark");
        assert!(!error.contains("cret"), "{error}");
    }
}
