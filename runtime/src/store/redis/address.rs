//! Addresses of Redis servers.

use std::sync::Arc;

use redis::io::tcp::TcpSettings;
use redis::{Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion, RedisResult};

use super::super::tls::Certificates;
use super::super::url::bracketed;
use super::connection::client;
use super::slots::Node;

/// Reads the URL of one server. The error never repeats it, because a password may be anywhere in a malformed one.
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

/// The user with an `@`, if there is one, and hosts and ports. Never the password.
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

/// How to connect to every server of a deployment, wherever it is.
pub(super) struct Access {
    info: ConnectionInfo,
    certificates: Arc<Certificates>,
}

impl Access {
    /// As to this server. Fails if the certificates cannot be used.
    pub(super) fn like(info: &ConnectionInfo, certificates: &Arc<Certificates>) -> Result<Self, String> {
        client(info.clone(), certificates)?;
        Ok(Self { info: info.clone(), certificates: certificates.clone() })
    }

    pub(super) fn client(&self, (host, port): &Node) -> RedisResult<Client> {
        let (host, port) = (host.clone(), *port);
        let addr = match self.info.addr().clone() {
            ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
                ConnectionAddr::TcpTls { host, port, insecure, tls_params }
            }
            _ => ConnectionAddr::Tcp(host, port),
        };
        let client = client(self.info.clone().set_addr(addr), &self.certificates);
        Ok(client.map_err(std::io::Error::other)?)
    }
}

#[cfg(test)]
mod tests;
