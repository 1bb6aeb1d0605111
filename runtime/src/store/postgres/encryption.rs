//! What `sslmode` asks for, and what that takes.

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use super::super::tls::Certificates;
#[cfg(feature = "tls")]
use super::super::tls::Trust;
#[cfg(feature = "tls")]
use super::tls::Tls;

/// How to encrypt: not at all in a build without TLS.
#[cfg(not(feature = "tls"))]
pub(super) type Encryption = Option<NoTlsBuilt>;
#[cfg(feature = "tls")]
pub(super) type Encryption = Option<Tls>;

/// There is none in a build without TLS.
#[cfg(not(feature = "tls"))]
#[derive(Clone)]
pub(super) enum NoTlsBuilt {}

const MODES: &str = "expected one of disable, prefer, require, verify-ca, verify-full";

/// Reads the mode, and prepares what it takes. Stronger than PostgreSQL's own clients are in one case and nowhere weaker:
/// `require` verifies the certificate and the host name, as `verify-full` does.
pub(super) fn prepare(
    mode: Option<&str>,
    certificates: &Certificates,
    config: &mut Config,
) -> Result<Encryption, String> {
    // There is no TLS over a socket in the file system, and nobody between to keep out.
    let is_local = |host: &Host| !matches!(host, Host::Tcp(_));
    if config.get_hosts().iter().all(is_local) {
        config.ssl_mode(SslMode::Disable);
        return Ok(None);
    }
    let named = !certificates.is_empty();
    match mode {
        Some(mode @ ("disable" | "prefer")) if named => Err(format!(
            "sslmode={mode} verifies nothing, so certificates are of no use; write sslmode=verify-full"
        )),
        Some("disable") => {
            config.ssl_mode(SslMode::Disable);
            Ok(None)
        }
        Some("prefer") => opportunistic(config),
        None if !named => opportunistic(config),
        None | Some("require" | "verify-full" | "verify-ca") => verified(mode, certificates, config),
        Some(_) => Err(format!("unknown sslmode; {MODES}")),
    }
}

/// Encrypted if the server offers it, verified never: whoever can answer in its place could offer no encryption as well.
#[cfg(feature = "tls")]
fn opportunistic(config: &mut Config) -> Result<Encryption, String> {
    config.ssl_mode(SslMode::Prefer);
    Ok(Some(Tls::new(Certificates::default().client_config(Trust::Nothing)?)))
}

#[cfg(not(feature = "tls"))]
#[allow(clippy::unnecessary_wraps, reason = "as in a build with TLS")]
fn opportunistic(config: &mut Config) -> Result<Encryption, String> {
    config.ssl_mode(SslMode::Disable);
    Ok(None)
}

#[cfg(feature = "tls")]
fn verified(
    mode: Option<&str>,
    certificates: &Certificates,
    config: &mut Config,
) -> Result<Encryption, String> {
    let trust = if mode == Some("verify-ca") { Trust::Authority } else { Trust::Host };
    if trust == Trust::Authority && !certificates.has_root() {
        return Err("sslmode=verify-ca needs sslrootcert=/path/to/ca.pem: with the system's roots anybody could have a \
                    certificate; write sslmode=verify-full, or name the CA"
            .to_owned());
    }
    config.ssl_mode(SslMode::Require);
    Ok(Some(Tls::new(certificates.client_config(trust)?)))
}

#[cfg(not(feature = "tls"))]
fn verified(mode: Option<&str>, _: &Certificates, _: &mut Config) -> Result<Encryption, String> {
    Err(super::super::tls::needs_feature(&format!("sslmode={}", mode.unwrap_or("verify-full"))))
}

#[cfg(all(test, not(feature = "tls")))]
mod tests {
    use super::super::PostgresStore;

    #[test]
    fn tls_that_is_asked_for_is_not_silently_left_out() {
        for parameters in
            ["sslmode=require", "sslmode=verify-full", "sslmode=verify-ca", "sslrootcert=/ca.pem"]
        {
            let url = format!("postgres://jobs:secret@host/shop?{parameters}");
            let error = PostgresStore::open(&url, None).expect_err(parameters).to_string();
            assert!(error.contains("the feature `tls`") && !error.contains("secret"), "{error}");
        }
    }
}
