//! What a URL leads to: one server, the master that sentinels name, or a cluster.

use std::borrow::Cow;

use redis::ConnectionInfo;

use super::address;
use super::parameters::{self, Parameters};
use super::sentinel::Sentinels;

/// How the store is deployed, and how to reach it.
#[derive(Clone)]
pub(super) enum Topology {
    Server(Box<ConnectionInfo>),
    Sentinel(Sentinels),
    /// Some of its nodes; they know the others.
    Cluster(Vec<ConnectionInfo>),
}

/// A URL that was read.
pub(super) struct Target {
    pub(super) topology: Topology,
    pub(super) parameters: Parameters,
    /// The URL again, without its passwords.
    pub(super) location: String,
}

/// Reads a URL. The error never repeats it, because a password may be anywhere in a malformed one.
pub(super) fn parse(url: &str) -> Result<Target, String> {
    let url = &as_redis(url);
    match url.split_once("://") {
        Some((scheme @ ("redis+sentinel" | "rediss+sentinel"), rest)) => sentinel(scheme, rest),
        Some((scheme @ ("redis+cluster" | "rediss+cluster"), rest)) => cluster(scheme, rest),
        _ => server(url),
    }
}

/// `valkey://`, `valkeys+cluster://` and so on mean the same with `redis`.
fn as_redis(url: &str) -> Cow<'_, str> {
    match url.strip_prefix("valkey") {
        Some(rest) if rest.starts_with([':', 's', '+']) => format!("redis{rest}").into(),
        _ => url.into(),
    }
}

fn server(url: &str) -> Result<Target, String> {
    let info = address::parse(url)?;
    let also_known = if url.starts_with("redis") && !url.contains("unix:") {
        parameters::SERVER
    } else {
        parameters::SOCKET
    };
    let query = url.split_once('?').map_or("", |(_, query)| query);
    let parameters = Parameters::read(query, also_known)?;
    let location = address::without_password(&info);
    Ok(Target { topology: Topology::Server(Box::new(info)), parameters, location })
}

/// A URL with several hosts, taken apart.
struct Parts<'a> {
    /// Of one of its hosts.
    scheme: &'a str,
    /// With its `@`.
    credentials: &'a str,
    hosts: Vec<String>,
    path: &'a str,
    query: &'a str,
}

impl<'a> Parts<'a> {
    fn split(scheme: &'a str, rest: &'a str, default_port: u16, expected: &str) -> Result<Self, String> {
        let scheme = scheme.split('+').next().unwrap_or(scheme);
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(end);
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        // A password with a slash in it would end up in what is shown.
        if rest.contains(['@', '#']) {
            return Err(format!(
                "write `/`, `?`, `#` and `@` in a password as %2F, %3F, %23 and %40; {expected}"
            ));
        }
        let after = authority.rfind('@').map_or(0, |at| at + 1);
        let (credentials, hosts) = authority.split_at(after);
        let with_port = |host: &str| {
            let has_port = host.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']'));
            if has_port { host.to_owned() } else { format!("{host}:{default_port}") }
        };
        let hosts = hosts.split(',').map(with_port).collect();
        Ok(Self { scheme, credentials, hosts, path: path.trim_matches('/'), query })
    }

    /// One address per host.
    fn addresses(&self, database: &str, expected: &str) -> Result<Vec<ConnectionInfo>, String> {
        let url = |host: &String| format!("{}://{}{host}/{database}", self.scheme, self.credentials);
        let parse = |host| {
            let parsed = address::parse(&url(host));
            parsed
                .map_err(|problem| format!("{}; {expected}", problem.split("; ").next().unwrap_or_default()))
        };
        self.hosts.iter().map(parse).collect()
    }
}

fn sentinel(scheme: &str, rest: &str) -> Result<Target, String> {
    const EXPECTED: &str =
        "expected `redis+sentinel://user:password@host1:26379,host2:26379/mastername/database`";
    let parts = Parts::split(scheme, rest, 26379, EXPECTED)?;
    let parameters = Parameters::read(parts.query, parameters::SENTINEL)?;
    let (name, database) = parts.path.split_once('/').unwrap_or((parts.path, "0"));
    if name.is_empty() {
        return Err(format!("the name of the master is missing; {EXPECTED}"));
    }
    let addresses = parts.addresses(database, EXPECTED)?;
    let sentinels = Sentinels::new(&addresses, name, &parameters);
    let master = &addresses[0];
    let user = address::user(master);
    let database = master.redis_settings().db();
    let location = format!("{scheme}://{user}{}/{name}/{database}", address::hosts(&addresses));
    Ok(Target { topology: Topology::Sentinel(sentinels), parameters, location })
}

fn cluster(scheme: &str, rest: &str) -> Result<Target, String> {
    const EXPECTED: &str = "expected `redis+cluster://user:password@host1:6379,host2:6379`";
    let parts = Parts::split(scheme, rest, 6379, EXPECTED)?;
    let parameters = Parameters::read(parts.query, &[])?;
    if !["", "0"].contains(&parts.path) {
        return Err(format!("a cluster has no databases; {EXPECTED}"));
    }
    let addresses = parts.addresses("", EXPECTED)?;
    let user = address::user(&addresses[0]);
    let location = format!("{scheme}://{user}{}", address::hosts(&addresses));
    Ok(Target { topology: Topology::Cluster(addresses), parameters, location })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn location(url: &str) -> String {
        parse(url).map_or_else(|error| panic!("{url}: {error}"), |target| target.location)
    }

    fn refused(url: &str) -> String {
        parse(url).err().unwrap_or_else(|| panic!("{url} was read"))
    }

    #[test]
    fn one_server_is_reached_by_its_own_url() {
        assert_eq!(location("redis://:secret@host/3?wait_replicas=1"), "redis://host:6379/3");
        assert_eq!(location("redis+unix:///r.sock?db=2&pass=secret&user=u"), "redis+unix:///r.sock?db=2");
        for (url, expected) in [
            ("valkey://:secret@host/3", "redis://host:6379/3"),
            ("valkey+unix:///r.sock?db=2", "redis+unix:///r.sock?db=2"),
            ("valkey+sentinel://a/m", "redis+sentinel://a:26379/m/0"),
            ("valkey+cluster://a", "redis+cluster://a:6379"),
            #[cfg(feature = "tls")]
            ("valkeys://host", "rediss://host:6379/0"),
        ] {
            assert_eq!(location(url), expected);
        }
        let error = refused("redis://host/?db=3");
        assert!(error.contains("known are wait_replicas"), "{error}");
        let error = refused("redis+unix:///r.sock?secret=1");
        assert!(error.contains("sslkey, db, user, pass") && !error.contains("secret"), "{error}");
    }

    #[test]
    fn sentinels_are_listed_with_the_masters_name() {
        for (url, expected) in [
            ("redis+sentinel://a/m", "redis+sentinel://a:26379/m/0"),
            ("redis+sentinel://secret@a/m", "redis+sentinel://a:26379/m/0"),
            (
                "redis+sentinel://u:secret@a:1,[::1],c:3/m/4?sentinel_password=secret",
                "redis+sentinel://u@a:1,[::1]:26379,c:3/m/4",
            ),
        ] {
            assert_eq!(location(url), expected);
        }
        let Topology::Sentinel(_) = parse("redis+sentinel://a/m").ok().unwrap().topology else {
            panic!("not sentinels");
        };
    }

    #[test]
    fn some_nodes_of_a_cluster_are_listed() {
        for (url, expected) in [
            ("redis+cluster://a", "redis+cluster://a:6379"),
            ("redis+cluster://secret@a", "redis+cluster://a:6379"),
            ("redis+cluster://u:secret@a:1,b/?wait_replicas=1", "redis+cluster://u@a:1,b:6379"),
        ] {
            assert_eq!(location(url), expected);
        }
        assert!(refused("redis+cluster://a/1").contains("no databases"));
    }

    #[test]
    fn a_malformed_url_is_not_repeated() {
        for url in [
            "redis+sentinel://:secret@a,b",
            "redis+sentinel://:secret@a,b/",
            "redis+sentinel://:secret@/m",
            "redis+sentinel://:secret@a:first,b/m",
            "redis+sentinel://:secret@a/m/first",
            "redis+sentinel://user:12/secret@a/m",
            "redis+sentinel://user:12?secret@a/m",
            "redis+sentinel://:p@a/m?sentinel_password=1&secret=2",
            "redis+sentinel://:p@a/m?wait_replicas=secret",
            "redis+cluster://:secret@a,,b",
            "redis+cluster://user:12/secret@a",
            "redis+cluster://user:12#secret@a",
            "redis+cluster://:secret@a?sentinel_password=secret",
        ] {
            let error = refused(url);
            let helps = error.contains("expected `redis+")
                || error.contains("known are")
                || error.contains("wait_replicas=1");
            assert!(!error.contains("secret") && helps, "{url}: {error}");
        }
    }
}
