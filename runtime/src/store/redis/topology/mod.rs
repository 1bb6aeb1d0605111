//! Reads Redis URLs: one server, a master named by sentinels, or a cluster.

use redis::{ConnectionAddr, ConnectionInfo, ProtocolVersion, RedisConnectionInfo};

use super::address;
use crate::store::net::timeouts::Timeouts;
use crate::store::net::tls::Certificates;
use crate::store::net::url;
use crate::store::net::url::COMMON;

/// The deployment of the store, and its addresses.
pub(super) enum Topology {
    Server(Box<ConnectionInfo>),
    Sentinel {
        sentinels: Vec<ConnectionInfo>,
        /// The name by which they know the master.
        name: String,
        /// The master's user, password and database, at any address.
        master: Box<ConnectionInfo>,
    },
    /// Some of its nodes; they know the others.
    Cluster(Vec<ConnectionInfo>),
}

/// A URL that was read.
pub(super) struct RedisAddress {
    pub(super) topology: Topology,
    /// The URL again, without its passwords.
    pub(super) location: String,
    /// Number of replicas that must have a claim before its run starts.
    pub(super) wait_replicas: usize,
    pub(super) timeouts: Timeouts,
    pub(super) certificates: Certificates,
}

impl RedisAddress {
    /// Adds what the URL asks for beside an address.
    fn new(
        topology: Topology,
        location: String,
        query: &url::UrlParameters<'_>,
        also_known: &[&str],
    ) -> Result<Self, String> {
        query.allow(&[&["wait_replicas"], &COMMON[..], also_known].concat())?;
        let replicas = query.get("wait_replicas")?.map_or(Ok(0), |replicas| replicas.parse());
        let wait_replicas = replicas.map_err(|_| "wait_replicas is not a number, as in wait_replicas=1")?;
        let (timeouts, certificates) = (Timeouts::read(query, "")?, Certificates::of_url(query)?);
        Ok(Self { topology, location, wait_replicas, timeouts, certificates })
    }
}

/// Reads a URL. The error never repeats it, because a password may be anywhere in a malformed one.
pub(super) fn parse(url: &str) -> Result<RedisAddress, String> {
    // `valkey://`, `valkeys+cluster://` and so on mean the same with `redis`.
    let url = &match url.strip_prefix("valkey") {
        Some(rest) if rest.starts_with([':', 's', '+']) => format!("redis{rest}"),
        _ => url.to_owned(),
    };
    match url.split_once("://") {
        Some((scheme @ ("redis+sentinel" | "rediss+sentinel"), rest)) => sentinel(scheme, rest),
        Some((scheme @ ("redis+cluster" | "rediss+cluster"), rest)) => cluster(scheme, rest),
        _ => server(url),
    }
}

fn server(url: &str) -> Result<RedisAddress, String> {
    const EXPECTED: &str = "expected `redis://user:password@host:port/database`";
    let info = address::parse(url, EXPECTED)?;
    // The path of a socket may have any character, and is no password.
    if address::node_of(&info).is_some() {
        let (_, rest) = url.split_once("://").ok_or(EXPECTED)?;
        let (_, rest) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        refuse(rest, &['@'], EXPECTED)?;
    }
    let location = location(&info);
    let also_known: &[_] = match info.addr() {
        // The client's own.
        ConnectionAddr::Unix(_) => &["db", "user", "pass", "protocol"],
        // Programs that share the URL may choose a protocol; this store always speaks the older one.
        _ => &["protocol"],
    };
    let query = url.split_once('?').map_or("", |(_, query)| query);
    RedisAddress::new(Topology::Server(Box::new(info)), location, &url::UrlParameters::of(query), also_known)
}

/// Returns the URL of one server, without its password.
pub(super) fn location(info: &ConnectionInfo) -> String {
    let hosts = || address::user_and_hosts(std::slice::from_ref(info));
    let db = info.redis_settings().db();
    match info.addr() {
        ConnectionAddr::Unix(path) => format!("redis+unix://{}?db={db}", path.display()),
        ConnectionAddr::TcpTls { .. } => format!("rediss://{}/{db}", hosts()),
        _ => format!("redis://{}/{db}", hosts()),
    }
}

fn sentinel(scheme: &str, rest: &str) -> Result<RedisAddress, String> {
    const EXPECTED: &str =
        "expected `redis+sentinel://user:password@host1:26379,host2:26379/mastername/database`";
    let parts = UrlParts::split(scheme, rest, EXPECTED)?;
    let (name, database) = parts.path.split_once('/').unwrap_or((parts.path, "0"));
    if name.is_empty() {
        return Err(format!("the name of the master is missing; {EXPECTED}"));
    }
    // With the master's user, password and database; the sentinels have their own.
    let addresses = parts.addresses(database, 26379)?;
    let mut own = RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP2);
    if let Some(user) = parts.query.get("sentinel_username")? {
        own = own.set_username(user);
    }
    if let Some(password) = parts.query.get("sentinel_password")? {
        own = own.set_password(password);
    }
    let sentinels = addresses.iter().map(|info| info.clone().set_redis_settings(own.clone())).collect();
    let master = Box::new(addresses[0].clone());
    let database = master.redis_settings().db();
    let location = format!("{scheme}://{}/{name}/{database}", address::user_and_hosts(&addresses));
    let topology = Topology::Sentinel { sentinels, name: name.to_owned(), master };
    RedisAddress::new(topology, location, &parts.query, &["sentinel_username", "sentinel_password"])
}

fn cluster(scheme: &str, rest: &str) -> Result<RedisAddress, String> {
    const EXPECTED: &str = "expected `redis+cluster://user:password@host1:6379,host2:6379`";
    let parts = UrlParts::split(scheme, rest, EXPECTED)?;
    if !["", "0"].contains(&parts.path) {
        return Err(format!("a cluster has no databases; {EXPECTED}"));
    }
    let addresses = parts.addresses("", 6379)?;
    let location = format!("{scheme}://{}", address::user_and_hosts(&addresses));
    RedisAddress::new(Topology::Cluster(addresses), location, &parts.query, &[])
}

/// Refuses these characters after the hosts: what is before them may be a password with a slash in it, which would end up
/// in what is shown.
fn refuse(rest: &str, characters: &[char], expected: &str) -> Result<(), String> {
    if rest.contains(characters) {
        return Err(format!(
            "write `/`, `?`, `#` and `@` in a password as %2F, %3F, %23 and %40; {expected}"
        ));
    }
    Ok(())
}

/// A URL with several hosts, taken apart.
struct UrlParts<'a> {
    /// The expected form, for errors.
    expected: &'a str,
    /// Of one of its hosts.
    scheme: &'a str,
    /// With its `@`.
    credentials: &'a str,
    hosts: &'a str,
    path: &'a str,
    query: url::UrlParameters<'a>,
}

impl<'a> UrlParts<'a> {
    fn split(scheme: &'a str, rest: &'a str, expected: &'a str) -> Result<Self, String> {
        let scheme = scheme.split('+').next().unwrap_or(scheme);
        let (authority, rest) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        refuse(rest, &['@', '#'], expected)?;
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (credentials, hosts) = authority.split_at(authority.rfind('@').map_or(0, |at| at + 1));
        let (path, query) = (path.trim_matches('/'), url::UrlParameters::of(query));
        Ok(Self { expected, scheme, credentials, hosts, path, query })
    }

    /// One address per host.
    fn addresses(&self, db: &str, default_port: u16) -> Result<Vec<ConnectionInfo>, String> {
        let Self { scheme, credentials, .. } = self;
        let address = |host: &str| {
            let has_port = host.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']'));
            let port = if has_port { String::new() } else { format!(":{default_port}") };
            address::parse(&format!("{scheme}://{credentials}{host}{port}/{db}"), self.expected)
        };
        self.hosts.split(',').map(address).collect()
    }
}

pub(crate) mod cluster;
pub(crate) mod quorum;
pub(crate) mod router;
pub(crate) mod sentinel;
pub(crate) mod slots;
#[cfg(test)]
mod tests;
