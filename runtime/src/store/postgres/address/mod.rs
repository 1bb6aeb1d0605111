//! Reads PostgreSQL URLs, and shows them without their passwords.

use std::error::Error;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslNegotiation, TargetSessionAttrs};

use crate::store::net::timeouts::Timeouts;
use crate::store::net::tls::Certificates;
use crate::store::net::url::{COMMON, UrlParameters, bracketed};

/// A URL that was read.
pub(super) struct PostgresAddress {
    pub(super) config: Config,
    pub(super) timeouts: Timeouts,
    pub(super) schema: Option<String>,
    /// Not left to the client, which does not know all modes of PostgreSQL.
    pub(super) sslmode: Option<String>,
    pub(super) certificates: Certificates,
}

const EXPECTED: &str = "expected `postgres://user:password@host:port/database`";

/// Reads a URL. The error never repeats it, because a password may be anywhere in a malformed one.
pub(super) fn parse(url: &str) -> Result<PostgresAddress, String> {
    let (url, query) = split(url)?;
    let parameters = UrlParameters::of(query);
    let (schema, sslmode) = (parameters.get("schema")?, parameters.get("sslmode")?);
    let certificates = Certificates::of_url(&parameters)?;
    let mut timeouts = Timeouts::read(&parameters, "s")?;
    let others = parameters.without(&[&COMMON[..], &["schema", "sslmode"]].concat());
    let mut config: Config = format!("{url}?{others}").parse().map_err(|error: tokio_postgres::Error| {
        let problem = error.source().map(ToString::to_string).unwrap_or_default();
        // The name of an unknown option may be the rest of a password with an `&` in it.
        if problem.starts_with("unknown option") {
            format!("it has an option that is not known; {EXPECTED}")
        } else if problem.starts_with("invalid value for option") {
            format!("{problem}; {EXPECTED}")
        } else {
            EXPECTED.to_owned()
        }
    })?;
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        return Err(format!("it names no host; {EXPECTED}"));
    }
    if config.get_ssl_negotiation() == SslNegotiation::Direct {
        return Err("sslnegotiation=direct is not supported; leave it out".to_owned());
    }
    // The name that the certificate must have, if there is no other.
    if config.get_hosts().is_empty() {
        for address in config.get_hostaddrs().to_vec() {
            config.host(address.to_string());
        }
    }
    if config.get_application_name().is_none() {
        config.application_name("singleton-jobs");
    }
    // Of several hosts the one that accepts writes.
    config.target_session_attrs(TargetSessionAttrs::ReadWrite);
    // The timeout is for each of them, so that one that does not answer does not hide the others.
    config.connect_timeout(timeouts.connect);
    timeouts.connect *= u32::try_from(config.get_hosts().len()).unwrap_or(u32::MAX).max(1);
    Ok(PostgresAddress { config, timeouts, schema, sslmode, certificates })
}

/// Splits off the parameters, which begin where the client finds them: after the first `@`, if there is one.
///
/// The client takes what is before that for user and password. Refuses a URL in which a part of a password could be taken
/// for something that is shown: the user, a host, the database.
fn split(url: &str) -> Result<(&str, &str), String> {
    let schemes = ["postgres://", "postgresql://"];
    let rest = schemes.iter().find_map(|scheme| url.strip_prefix(scheme)).ok_or(EXPECTED)?;
    let (credentials, address) = rest.split_once('@').unwrap_or(("", rest));
    let user = credentials.split(':').next().unwrap_or_default();
    if address.contains('@') || user.contains(['/', '?', '&', '=']) {
        return Err(format!("write an `@` in a password as %40, and a `/` as %2F; {EXPECTED}"));
    }
    let length = address.find('?').map_or(0, |begin| address.len() - begin);
    let (rest, query) = url.split_at(url.len() - length);
    Ok((rest, query.strip_prefix('?').unwrap_or_default()))
}

/// Returns the URL without the password.
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

/// Checks the name of a schema, which is used in quotes.
pub(super) fn check_schema(schema: &str) -> Result<(), String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if schema.is_empty() || schema.len() > 63 || !schema.chars().all(allowed) {
        // Not repeated: in a URL it may be a part of a password.
        let allowed = "up to 63 letters, digits, `_` and `-` are allowed, as in \"jobs\"";
        return Err(format!("invalid schema: {allowed}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
