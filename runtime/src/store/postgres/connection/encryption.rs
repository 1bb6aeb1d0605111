//! The encryption that `sslmode` asks for.

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use crate::store::net::tls::Certificates;
#[cfg(feature = "tls")]
use crate::store::net::tls::Trust;

#[cfg(feature = "tls")]
pub(crate) use super::tls::RustlsConnector as Encryption;
#[cfg(not(feature = "tls"))]
pub(crate) use tokio_postgres::NoTls as Encryption;

const MODES: &str = "expected one of disable, prefer, require, verify-ca, verify-full";

/// Reads the mode, and prepares the encryption. Never weaker than PostgreSQL's own clients, and stronger in one case:
/// `require` verifies the certificate and the host name, as `verify-full` does.
pub(crate) fn prepare(
    mode: Option<&str>,
    certificates: &Certificates,
    config: &mut Config,
) -> Result<Encryption, String> {
    let is_local = |host: &Host| !matches!(host, Host::Tcp(_));
    let named = !certificates.is_empty();
    let ssl_mode = match mode {
        // A Unix socket needs no TLS.
        _ if config.get_hosts().iter().all(is_local) => SslMode::Disable,
        Some(mode @ ("disable" | "prefer")) if named => {
            return Err(format!(
                "sslmode={mode} verifies nothing, so certificates are of no use; write sslmode=verify-full"
            ));
        }
        Some("disable") => SslMode::Disable,
        Some("prefer") => SslMode::Prefer,
        None if !named => SslMode::Prefer,
        None | Some("require" | "verify-full" | "verify-ca") => SslMode::Require,
        Some(_) => return Err(format!("unknown sslmode; {MODES}")),
    };
    config.ssl_mode(ssl_mode);
    encryption(ssl_mode, mode, certificates)
}

#[cfg(feature = "tls")]
fn encryption(
    ssl_mode: SslMode,
    mode: Option<&str>,
    certificates: &Certificates,
) -> Result<Encryption, String> {
    let config = match (ssl_mode, mode) {
        (SslMode::Require, Some("verify-ca")) => certificates.client_config(Trust::Authority)?,
        (SslMode::Require, _) => certificates.client_config(Trust::Host)?,
        // Nothing is verified: an impostor could also offer no encryption.
        _ => Certificates::default().client_config(Trust::Nothing)?,
    };
    Ok(Encryption(config.into()))
}

#[cfg(not(feature = "tls"))]
fn encryption(ssl_mode: SslMode, mode: Option<&str>, _: &Certificates) -> Result<Encryption, String> {
    if ssl_mode == SslMode::Require {
        return Err(crate::store::net::tls::needs_feature(&format!(
            "sslmode={}",
            mode.unwrap_or("verify-full")
        )));
    }
    Ok(Encryption)
}

#[cfg(all(test, not(feature = "tls")))]
#[path = "without_tls.rs"]
mod tests;
