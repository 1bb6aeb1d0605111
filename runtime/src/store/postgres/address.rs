//! PostgreSQL URLs, and how to speak of them without their passwords.

use std::error::Error;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslNegotiation, TargetSessionAttrs};

use super::super::timeouts::Timeouts;
use super::super::tls::Files;
use super::parameters::{self, Parameters};

/// Where the store is: how to connect, for how long to wait, and what the URL says of schema and encryption.
pub(super) struct Address {
    pub(super) config: Config,
    pub(super) timeouts: Timeouts,
    pub(super) schema: Option<String>,
    pub(super) sslmode: Option<String>,
    pub(super) files: Files,
}

const EXPECTED: &str = "expected `postgres://user:password@host:port/database`";

/// Reads a URL. The error never repeats it, because a password may be anywhere in a malformed one.
pub(super) fn parse(url: &str) -> Result<Address, String> {
    check_form(url)?;
    let Parameters { url, schema, sslmode, files, mut timeouts } = Parameters::take_from(url)?;
    let mut config: Config = url.parse().map_err(|error: tokio_postgres::Error| {
        let problem = error.source().map(ToString::to_string).unwrap_or_default();
        let words = ["unknown option", "invalid value for option"];
        // A password with an `&` in it would make the rest of it look like an option.
        let has_password =
            parameters::split(&url).1.is_some_and(|parameters| parameters.contains("password"));
        let named = !has_password && words.iter().any(|word| problem.starts_with(word));
        if named { format!("{problem}; {EXPECTED}") } else { EXPECTED.to_owned() }
    })?;
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        return Err(format!("it names no host; {EXPECTED}"));
    }
    if config.get_ssl_negotiation() == SslNegotiation::Direct {
        return Err("sslnegotiation=direct is not supported; leave it out".to_owned());
    }
    // The name that a certificate has to bear, if there is no other.
    if config.get_hosts().is_empty() {
        for address in config.get_hostaddrs().to_vec() {
            config.host(address.to_string());
        }
    }
    if config.get_application_name().is_none() {
        config.application_name("singleton-jobs");
    }
    // Of several hosts the one that takes writes: a standby cannot decide anything.
    config.target_session_attrs(TargetSessionAttrs::ReadWrite);
    // As long for each of them, so that one that is silent does not hide the others.
    config.connect_timeout(timeouts.connect);
    timeouts.connect *= u32::try_from(config.get_hosts().len()).unwrap_or(u32::MAX).max(1);
    Ok(Address { config, timeouts, schema, sslmode, files })
}

/// Refuses a URL in which a part of a password could be taken for something that is shown: the user, a host, the database.
/// The client takes what is before the first `@` for user and password.
fn check_form(url: &str) -> Result<(), String> {
    let schemes = ["postgres://", "postgresql://"];
    let Some(rest) = schemes.iter().find_map(|scheme| url.strip_prefix(scheme)) else {
        return Err(EXPECTED.to_owned());
    };
    let Some((credentials, address)) = rest.split_once('@') else { return Ok(()) };
    let user = credentials.split(':').next().unwrap_or_default();
    if address.contains('@') || user.contains(['/', '?', '&', '=']) {
        return Err(format!("write an `@` in a password as %40, and a `/` as %2F; {EXPECTED}"));
    }
    Ok(())
}

/// The URL again, without the password.
pub(super) fn without_password(config: &Config) -> String {
    let user = config.get_user().map(|user| format!("{user}@")).unwrap_or_default();
    let ports = config.get_ports();
    let port = |index: usize| ports.get(index).or(ports.first()).copied().unwrap_or(5432);
    let hosts = config.get_hosts().iter().map(|host| match host {
        Host::Tcp(name) => bracketed(name),
        #[cfg(unix)]
        Host::Unix(path) => path.display().to_string(),
    });
    let hosts: Vec<_> = hosts.enumerate().map(|(index, host)| format!("{host}:{}", port(index))).collect();
    let database = config.get_dbname().map(|name| format!("/{name}")).unwrap_or_default();
    format!("postgres://{user}{}{database}", hosts.join(","))
}

fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

/// A schema's name, as it stands in quotes.
pub(super) fn check_schema(schema: &str) -> Result<(), String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if schema.is_empty() || schema.len() > 63 || !schema.chars().all(allowed) {
        return Err(format!(
            "invalid schema {schema:?}: up to 63 letters, digits, `_` and `-` are allowed, as in \"jobs\""
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_is_the_url_without_its_password() {
        for (url, location) in [
            ("postgres://localhost", "postgres://localhost:5432"),
            ("postgresql://jobs:secret@db.internal:6432/shop", "postgres://jobs@db.internal:6432/shop"),
            ("postgres://jobs:secret@a,b:6432/shop?schema=x", "postgres://jobs@a:5432,b:6432/shop"),
            ("postgres://jobs@[::1]:5433/shop", "postgres://jobs@[::1]:5433/shop"),
            ("postgres://jobs:p?schema=secret@db/shop", "postgres://jobs@db:5432/shop"),
            ("postgres://jobs@/shop?hostaddr=10.0.0.1", "postgres://jobs@10.0.0.1:5432/shop"),
            ("postgres:///shop?host=/run/pg&password=secret", "postgres:///run/pg:5432/shop"),
        ] {
            assert_eq!(without_password(&parse(url).unwrap().config), location);
        }
    }

    #[test]
    fn time_outs_are_parameters_and_a_bare_number_is_in_seconds_as_the_client_has_it() {
        for (url, connect, response) in [
            ("postgres://localhost/shop", 2000, 1000),
            ("postgres://localhost/shop?connect_timeout=3", 3000, 1000),
            ("postgres://localhost/shop?connect_timeout=250ms&response_timeout=3s&schema=jobs", 250, 3000),
            ("postgres://a,b,c/shop?connect_timeout=3", 9000, 1000),
        ] {
            let Address { config, timeouts, .. } = parse(url).expect(url);
            let millis = [timeouts.connect, timeouts.response].map(|timeout| timeout.as_millis());
            assert_eq!(millis, [connect, response], "{url}");
            let hosts = u32::try_from(config.get_hosts().len()).unwrap();
            assert_eq!(config.get_connect_timeout(), Some(&(timeouts.connect / hosts)), "{url}");
        }
        for (parameter, says) in [
            ("connect_timeout=0", "invalid `connect_timeout`: expected from 10ms to 60s"),
            (
                "response_timeout=3",
                "invalid `response_timeout`: expected a number with a unit, as in 2s or 500ms",
            ),
        ] {
            assert_eq!(parse(&format!("postgres://host/db?{parameter}")).err().as_deref(), Some(says));
        }
    }

    #[test]
    fn malformed_url_is_not_repeated() {
        for url in [
            "postgres:secret@host",
            "postgres://u:secret@host:first/db",
            "postgres://u:secret",
            "postgres://u:secret@host/db?pool=3",
            "postgres://u:secret@",
            "postgres://u:p@secret@host/db",
            "postgres://u:p@x?secret=1@host/db",
            "postgres://u:a@b/secret@host/db",
            "postgres://u:a@b?schema=secret@host/db",
            "postgres://host/db?password=secret@1",
            "postgres://host/db?password=a&secret=1",
            "postgres://host/db?user=u&password=secret@host/db",
            "mysql://u:secret@host/db",
            "secret://u:secret@host/db",
            "host=db password=secret",
            "secret",
        ] {
            let error = parse(url).err().expect(url);
            assert!(!error.contains("secret") && error.contains("postgres://"), "{url}: {error}");
        }
    }
}
