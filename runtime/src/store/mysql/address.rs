//! Reads MySQL URLs, and shows them without their passwords.

use mysql_async::OptsBuilder;
use percent_encoding::percent_decode_str;

use crate::store::net::timeouts::Timeouts;
use crate::store::net::tls::Certificates;
use crate::store::net::url::{COMMON, UrlParameters, bracketed};

/// A URL that was read.
pub(super) struct MysqlAddress {
    pub(super) options: OptsBuilder,
    /// The URL without the password.
    pub(super) location: String,
    pub(super) user: Option<String>,
    pub(super) timeouts: Timeouts,
    pub(super) sslmode: Option<String>,
    pub(super) certificates: Certificates,
}

const EXPECTED: &str = "expected `mysql://user:password@host:port/database`";
const PORT: u16 = 3306;

/// Reads a URL. The error never repeats it, because a password may be anywhere in a malformed one.
pub(super) fn parse(url: &str) -> Result<MysqlAddress, String> {
    let schemes = ["mysql://", "mariadb://"];
    let rest = schemes.iter().find_map(|scheme| url.strip_prefix(scheme)).ok_or(EXPECTED)?;
    let (credentials, address) = rest.split_once('@').unwrap_or(("", rest));
    let (user, password) = match credentials.split_once(':') {
        Some((user, password)) => (user, Some(password)),
        None => (credentials, None),
    };
    // Otherwise a part of a password could be taken for something that is shown: the user, the host, the database.
    if address.contains(['@', '#']) || user.contains(['/', '?', '&', '=', '#']) {
        return Err(format!("write `@`, `#` and `/` in a password as %40, %23 and %2F; {EXPECTED}"));
    }
    let (address, query) = address.split_once('?').unwrap_or((address, ""));
    let (server, database) = address.split_once('/').unwrap_or((address, ""));
    let (host, port) = host_and_port(server)?;
    let [user, database] = [decoded(user)?, decoded(database)?];
    if database.is_empty() || database.contains('/') {
        return Err(format!("it names no database; {EXPECTED}"));
    }
    let parameters = UrlParameters::of(query);
    parameters.allow(&[&COMMON[..], &["sslmode"]].concat())?;
    let user = Some(user).filter(|user| !user.is_empty());
    let named = user.as_ref().map(|user| format!("{user}@")).unwrap_or_default();
    let location = format!("mysql://{named}{}:{port}/{database}", bracketed(host));
    let options = OptsBuilder::default()
        .ip_or_hostname(host)
        .tcp_port(port)
        .user(user.clone())
        .pass(password.map(decoded).transpose()?)
        .db_name(Some(database))
        // Otherwise a connection to this machine becomes one over a socket that the URL does not name.
        .prefer_socket(false)
        .stmt_cache_size(0);
    Ok(MysqlAddress {
        options,
        location,
        user,
        timeouts: Timeouts::read(&parameters, "s")?,
        sslmode: parameters.get("sslmode")?,
        certificates: Certificates::of_url(&parameters)?,
    })
}

fn host_and_port(server: &str) -> Result<(&str, u16), String> {
    let (host, port) = match server.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, "")) => (host, None),
        Some((host, rest)) => (host, Some(rest.strip_prefix(':').ok_or(EXPECTED)?)),
        None => server.split_once(':').map_or((server, None), |(host, port)| (host, Some(port))),
    };
    if host.is_empty() {
        return Err(format!("it names no host; {EXPECTED}"));
    }
    let port = port.map_or(Ok(PORT), |port| port.parse().map_err(|_| EXPECTED.to_owned()))?;
    Ok((host, port))
}

fn decoded(text: &str) -> Result<String, String> {
    let decoded = percent_decode_str(text).decode_utf8();
    decoded.map(std::borrow::Cow::into_owned).map_err(|_| format!("it is not UTF-8; {EXPECTED}"))
}

#[cfg(test)]
mod tests {
    use mysql_async::Opts;

    use super::*;

    fn opts(url: &str) -> Opts {
        parse(url).map(|address| Opts::from(address.options)).expect(url)
    }

    #[test]
    fn parts_of_a_url_are_read_and_the_password_is_not_shown() {
        let url = "mysql://jo%40bs:s%2Fecr%40et@[::1]:3307/shop?connect_timeout=3s";
        let read = opts(url);
        assert_eq!((read.user(), read.pass()), (Some("jo@bs"), Some("s/ecr@et")));
        assert_eq!((read.ip_or_hostname(), read.tcp_port(), read.db_name()), ("::1", 3307, Some("shop")));
        let address = parse(url).expect("a URL");
        assert_eq!(address.location, "mysql://jo@bs@[::1]:3307/shop");
        assert_eq!(address.timeouts.connect, std::time::Duration::from_secs(3));
        let plain = parse("mariadb://db/shop").expect("a URL");
        assert_eq!((&*plain.location, plain.user), ("mysql://db:3306/shop", None));
    }

    #[test]
    fn malformed_url_is_not_repeated() {
        for url in [
            "mysql://host",
            "mysql://host/",
            "mysql:///shop",
            "mysql://u:secret@host:port/shop",
            "mysql://u:a@secret@host/shop",
            "mysql://secret/a@host/shop",
            "mysql://u:a#secret@host/shop#secret",
            "mysql://host/shop?secret=1",
            "postgres://u:secret@host/shop",
        ] {
            let problem = parse(url).err().expect(url);
            assert!(!problem.contains("secret"), "{problem}");
        }
    }
}
