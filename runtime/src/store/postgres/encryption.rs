//! What `sslmode` asks for, and what that takes.

use tokio_postgres::Config;
#[cfg(not(feature = "tls"))]
use tokio_postgres::NoTls;
use tokio_postgres::config::{Host, SslMode};

use super::super::tls::Certificates;
#[cfg(feature = "tls")]
use super::super::tls::Trust;
#[cfg(feature = "tls")]
use super::tls::Tls;

/// Encrypts the connections for which the mode asks for it.
#[cfg(feature = "tls")]
pub(super) type Encryption = Tls;
#[cfg(not(feature = "tls"))]
pub(super) type Encryption = NoTls;

const MODES: &str = "expected one of disable, prefer, require, verify-ca, verify-full";

/// Reads the mode, and prepares what it takes. Stronger than PostgreSQL's own clients are in one case and nowhere weaker:
/// `require` verifies the certificate and the host name, as `verify-full` does.
pub(super) fn prepare(
    mode: Option<&str>,
    certificates: &Certificates,
    config: &mut Config,
) -> Result<Encryption, String> {
    let is_local = |host: &Host| !matches!(host, Host::Tcp(_));
    let named = !certificates.is_empty();
    let ssl_mode = match mode {
        // There is no TLS over a socket in the file system, and nobody between to keep out.
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
    if ssl_mode == SslMode::Require { verified(mode, certificates) } else { unverified() }
}

/// Encrypted if the server offers it, verified never: whoever can answer in its place could offer no encryption as well.
#[cfg(feature = "tls")]
fn unverified() -> Result<Encryption, String> {
    Certificates::default().client_config(Trust::Nothing).map(Tls::new)
}

#[cfg(not(feature = "tls"))]
#[allow(clippy::unnecessary_wraps, reason = "as in a build with TLS")]
fn unverified() -> Result<Encryption, String> {
    Ok(NoTls)
}

#[cfg(feature = "tls")]
fn verified(mode: Option<&str>, certificates: &Certificates) -> Result<Encryption, String> {
    let trust = if mode == Some("verify-ca") { Trust::Authority } else { Trust::Host };
    if trust == Trust::Authority && !certificates.has_root() {
        return Err("sslmode=verify-ca needs sslrootcert=/path/to/ca.pem: with the system's roots anybody could have a \
                    certificate; write sslmode=verify-full, or name the CA"
            .to_owned());
    }
    certificates.client_config(trust).map(Tls::new)
}

#[cfg(not(feature = "tls"))]
fn verified(mode: Option<&str>, _: &Certificates) -> Result<Encryption, String> {
    Err(super::super::tls::needs_feature(&format!("sslmode={}", mode.unwrap_or("verify-full"))))
}

#[cfg(all(test, not(feature = "tls")))]
#[path = "tests/without_tls.rs"]
mod tests;
