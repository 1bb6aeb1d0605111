//! The encryption that `sslmode` asks for. The modes are those of PostgreSQL's URLs, so that one table explains both.

use mysql_async::SslOpts;

use crate::store::net::tls::Certificates;
#[cfg(feature = "tls")]
use crate::store::net::tls::Trust;

const MODES: &str = "expected one of disable, prefer, require, verify-ca, verify-full";

/// How connections are encrypted.
#[derive(Clone)]
#[cfg_attr(not(feature = "tls"), allow(dead_code, reason = "only TLS encrypts"))]
pub(super) enum Encryption {
    Never,
    /// If the server offers it. The certificate is not verified: an impostor could also offer no encryption.
    IfOffered(SslOpts),
    Always(SslOpts),
}

/// Reads the mode, and prepares the encryption. `require` verifies the certificate and the host name, as `verify-full` does.
pub(super) fn prepare(mode: Option<&str>, certificates: &Certificates) -> Result<Encryption, String> {
    let named = !certificates.is_empty();
    match mode {
        Some(mode @ ("disable" | "prefer")) if named => Err(format!(
            "sslmode={mode} verifies nothing, so certificates are of no use; write sslmode=verify-full"
        )),
        Some("disable") => Ok(Encryption::Never),
        None if !named => if_offered(),
        Some("prefer") => if_offered(),
        None | Some("require" | "verify-full" | "verify-ca") => always(mode, certificates),
        Some(_) => Err(format!("unknown sslmode; {MODES}")),
    }
}

#[cfg(feature = "tls")]
fn if_offered() -> Result<Encryption, String> {
    Certificates::default().for_mysql(Trust::Nothing).map(Encryption::IfOffered)
}

#[cfg(feature = "tls")]
fn always(mode: Option<&str>, certificates: &Certificates) -> Result<Encryption, String> {
    let trust = if mode == Some("verify-ca") { Trust::Authority } else { Trust::Host };
    certificates.for_mysql(trust).map(Encryption::Always)
}

#[cfg(not(feature = "tls"))]
#[allow(clippy::unnecessary_wraps, reason = "with TLS it may fail")]
fn if_offered() -> Result<Encryption, String> {
    Ok(Encryption::Never)
}

#[cfg(not(feature = "tls"))]
fn always(mode: Option<&str>, _: &Certificates) -> Result<Encryption, String> {
    let mode = mode.unwrap_or("verify-full");
    Err(crate::store::net::tls::needs_feature(&format!("sslmode={mode}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_never_weaker_than_they_sound() {
        let prepared = |mode| prepare(mode, &Certificates::default());
        assert!(matches!(prepared(Some("disable")), Ok(Encryption::Never)));
        assert!(prepared(Some("verify")).is_err_and(|problem| problem.contains("verify-full")));
        let strict = prepared(Some("verify-ca")).err().expect("no CA is named, or no TLS is there");
        if cfg!(feature = "tls") {
            assert!(matches!(prepared(None), Ok(Encryption::IfOffered(_))));
            assert!(strict.contains("sslrootcert"), "{strict}");
        } else {
            assert!(matches!(prepared(None), Ok(Encryption::Never)));
            assert!(strict.contains("the feature `tls`"), "{strict}");
        }
    }
}
