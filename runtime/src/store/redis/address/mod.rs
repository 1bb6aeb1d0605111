//! Addresses of Redis servers.

use redis::io::tcp::TcpSettings;
use redis::{Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion, RedisResult};

use super::topology::slots::Node;
use crate::store::net::tls::Certificates;
use crate::store::net::url::bracketed;

/// Reads the URL of one server. The error never repeats the URL, because a password may be anywhere in a malformed one.
pub(super) fn parse(url: &str, expected: &str) -> Result<ConnectionInfo, String> {
    #[cfg(not(feature = "tls"))]
    if url.starts_with("rediss://") {
        return Err(crate::store::net::tls::needs_feature("rediss://"));
    }
    if url.starts_with("rediss://") && url.contains('#') {
        return Err(
            "the part after `#` is not supported: the certificate is always verified; name its CA with \
            ?sslrootcert=/path/to/ca.pem"
                .to_owned(),
        );
    }
    let info = url.into_connection_info().map_err(|error| {
        let problem = error.to_string().replace(" - InvalidClientConfig", "");
        format!("{problem}; {expected}")
    })?;
    Ok(with_own_settings(info, TcpSettings::default()))
}

/// Servers that do not know RESP3's greeting repeat it in their error, password included. So RESP2 is spoken.
fn with_own_settings(info: ConnectionInfo, tcp: TcpSettings) -> ConnectionInfo {
    let redis = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP2);
    info.set_redis_settings(redis).set_tcp_settings(tcp.set_nodelay(true))
}

/// Returns the user with an `@`, if there is one, and hosts and ports. Never the password.
///
/// A user without a password is not shown: it is most likely the password, as in `redis://PASSWORD@host`.
pub(super) fn user_and_hosts(infos: &[ConnectionInfo]) -> String {
    let settings = infos[0].redis_settings();
    let user = settings.username().filter(|_| settings.password().is_some());
    let user = user.map(|user| format!("{user}@")).unwrap_or_default();
    let hosts = infos.iter().map(|info| match node_of(info) {
        Some((host, port)) => format!("{}:{port}", bracketed(&host)),
        None => info.addr().to_string(),
    });
    user + &hosts.collect::<Vec<_>>().join(",")
}

/// `None` for a socket in the file system.
pub(super) fn node_of(info: &ConnectionInfo) -> Option<Node> {
    match info.addr() {
        ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
            Some((host.clone(), *port))
        }
        _ => None,
    }
}

/// Returns a client for a server, with these certificates.
pub(super) fn client(info: ConnectionInfo, certificates: &Certificates) -> Result<Client, String> {
    #[cfg(feature = "tls")]
    if matches!(info.addr(), ConnectionAddr::TcpTls { .. }) {
        let made = Client::build_with_tls(info, certificates.for_redis()?);
        return made.map_err(|error| error.to_string());
    }
    if certificates.is_empty() {
        Client::open(info).map_err(|error| error.to_string())
    } else {
        Err("certificates are for TLS: write rediss:// instead of redis://".to_owned())
    }
}

/// Returns a client with the settings of the application's client, and the store's own.
pub(super) fn client_like(applications: &Client) -> RedisResult<Client> {
    let info = applications.get_connection_info();
    Client::open(with_own_settings(info.clone(), info.tcp_settings().clone()))
}

/// Returns a client for another server of the same deployment, with the same settings.
pub(super) fn client_at((host, port): &Node, like: &Client) -> RedisResult<Client> {
    let info = like.get_connection_info().clone();
    let (host, port) = (host.clone(), *port);
    let addr = match info.addr().clone() {
        ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
            ConnectionAddr::TcpTls { host, port, insecure, tls_params }
        }
        _ => ConnectionAddr::Tcp(host, port),
    };
    Client::open(info.set_addr(addr))
}

#[cfg(test)]
mod tests;
