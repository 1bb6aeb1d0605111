//! Redis URLs, and how to speak of them without their passwords.

use redis::io::tcp::TcpSettings;
use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion};

use super::super::tls::Files;

/// Reads a URL. The error never repeats it, because a password may be anywhere in a malformed one.
pub(super) fn parse(url: &str) -> Result<(ConnectionInfo, Files), String> {
    let (url, files) = without_files(url)?;
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
    Ok((info.set_redis_settings(redis).set_tcp_settings(tcp), files))
}

/// Takes the files with certificates out of the URL's parameters, of which the client knows none.
fn without_files(url: &str) -> Result<(String, Files), String> {
    let Some((address, parameters)) = url.split_once('?') else {
        return Ok((url.to_owned(), Files::default()));
    };
    let (files, others) = Files::take_from(parameters)?;
    let rest = if others.is_empty() { address.to_owned() } else { format!("{address}?{}", others.join("&")) };
    Ok((rest, files))
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
            assert_eq!(without_password(&parse(url).unwrap().0), location);
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
        for (url, word) in [
            ("rediss://:secret@host#insecure", "always verified"),
            ("rediss://:secret@host?sslcert=/client.pem", "go together"),
        ] {
            let error = parse(url).unwrap_err();
            assert!(error.contains(word) && !error.contains("secret"), "{url}: {error}");
        }
    }

    #[cfg(feature = "tls")]
    #[test]
    fn files_are_read_from_the_url_and_not_part_of_the_location() {
        let (info, files) = parse("rediss://jobs:secret@cache:6380/1?sslrootcert=/ca.pem").unwrap();
        assert_eq!(without_password(&info), "rediss://jobs@cache:6380/1");
        assert_eq!(files.root.as_deref(), Some("/ca.pem"));
    }

    #[test]
    fn a_malformed_url_is_not_repeated() {
        for url in ["redis:secret@host", "http://:secret@host", "redis://:secret@host/first", "secret"] {
            let error = parse(url).unwrap_err();
            assert!(!error.contains("secret") && error.contains("redis://"), "{url}: {error}");
        }
    }
}
