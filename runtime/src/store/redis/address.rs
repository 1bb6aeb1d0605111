//! Redis URLs, and how to speak of them without their passwords.

use redis::io::tcp::TcpSettings;
use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion};

/// Reads a URL. The error never repeats it, because a password may be anywhere in a malformed one.
pub(super) fn parse(url: &str) -> Result<ConnectionInfo, String> {
    #[cfg(not(feature = "tls"))]
    if url.starts_with("rediss://") {
        return Err(super::super::tls::needs_feature("rediss://"));
    }
    if url.starts_with("rediss://") && url.contains('#') {
        return Err(
            "the part after `#` is not understood: a certificate is always verified, also one that the file \
                    in ?sslrootcert=/path/to/ca.pem vouches for"
                .to_owned(),
        );
    }
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
    let user = user(info);
    let db = info.redis_settings().db();
    match info.addr() {
        ConnectionAddr::Tcp(host, port) => format!("redis://{user}{}:{port}/{db}", bracketed(host)),
        ConnectionAddr::TcpTls { host, port, .. } => {
            format!("rediss://{user}{}:{port}/{db}", bracketed(host))
        }
        ConnectionAddr::Unix(path) => format!("redis+unix://{}?db={db}", path.display()),
        _ => "redis".to_owned(),
    }
}

/// With an `@`, if there is one. A user without a password is not shown: it is most likely the password, as in
/// `redis://PASSWORD@host`.
pub(super) fn user(info: &ConnectionInfo) -> String {
    let settings = info.redis_settings();
    let user = settings.username().filter(|_| settings.password().is_some());
    user.map(|user| format!("{user}@")).unwrap_or_default()
}

/// Hosts and ports, separated by commas.
pub(super) fn hosts(infos: &[ConnectionInfo]) -> String {
    let hosts = infos.iter().map(|info| match info.addr() {
        ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
            format!("{}:{port}", bracketed(host))
        }
        other => other.to_string(),
    });
    hosts.collect::<Vec<_>>().join(",")
}

pub(super) fn host_and_port(info: &ConnectionInfo) -> Option<(String, u16)> {
    match info.addr() {
        ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
            Some((host.clone(), *port))
        }
        _ => None,
    }
}

/// The same way in, at another host.
pub(super) fn at(info: &ConnectionInfo, host: &str, port: u16) -> ConnectionInfo {
    let addr = match info.addr().clone() {
        ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
            ConnectionAddr::TcpTls { host: host.to_owned(), port, insecure, tls_params }
        }
        _ => ConnectionAddr::Tcp(host.to_owned(), port),
    };
    info.clone().set_addr(addr)
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
            ("redis://secret@cache.internal/", "redis://cache.internal:6379/0"),
            ("redis://[::1]:6380", "redis://[::1]:6380/0"),
            ("redis+unix:///run/redis.sock?db=2&pass=secret", "redis+unix:///run/redis.sock?db=2"),
        ] {
            assert_eq!(without_password(&parse(url).unwrap()), location);
        }
    }

    #[cfg(not(feature = "tls"))]
    #[test]
    fn tls_that_is_asked_for_is_not_silently_left_out() {
        let error = parse("rediss://:secret@host").unwrap_err();
        assert!(error.contains("the feature `tls`") && !error.contains("secret"), "{error}");
    }

    #[cfg(feature = "tls")]
    #[test]
    fn certificates_are_always_verified() {
        let error = parse("rediss://:secret@host#insecure").unwrap_err();
        assert!(error.contains("always verified") && !error.contains("secret"), "{error}");
    }

    #[test]
    fn a_malformed_url_is_not_repeated() {
        for url in ["redis:secret@host", "http://:secret@host", "redis://:secret@host/first", "secret"] {
            let error = parse(url).unwrap_err();
            assert!(!error.contains("secret") && error.contains("redis://"), "{url}: {error}");
        }
    }
}
