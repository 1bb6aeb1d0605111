//! Explains failed TLS handshakes.

use std::error::Error;

use rustls::{AlertDescription, CertificateError};

use crate::store::net::errors;

/// Explains an error whose cause is TLS; `None` if it has another cause.
pub(crate) fn explain(error: &(dyn Error + 'static)) -> Option<String> {
    let error = errors::find_in::<rustls::Error>(error)?;
    Some(match error {
        rustls::Error::InvalidCertificate(problem) => certificate(problem),
        rustls::Error::AlertReceived(alert) => refusal(*alert),
        rustls::Error::InvalidMessage(_) => {
            "the server does not speak TLS on this port: connect to the port that does, or without TLS"
                .to_owned()
        }
        rustls::Error::PeerIncompatible(_) => {
            format!(
                "the store and this server have no TLS version in common ({error}): allow TLS 1.2 or 1.3 there"
            )
        }
        _ => format!("TLS failed: {error}"),
    })
}

fn certificate(problem: &CertificateError) -> String {
    use CertificateError as Problem;
    let (what, remedy) = match problem {
        Problem::UnknownIssuer => (
            "no authority that this server trusts has signed the store's certificate".to_owned(),
            "name the file with its CA's certificate, sslrootcert=/path/to/ca.pem",
        ),
        Problem::NotValidForNameContext { presented, .. } => (
            format!("the store's certificate is not for this host name, but for {}", names(presented)),
            "use a name that it is for",
        ),
        Problem::Expired
        | Problem::ExpiredContext { .. }
        | Problem::NotValidYet
        | Problem::NotValidYetContext { .. } => (
            "the store's certificate is not valid at this time".to_owned(),
            "renew it, or correct this machine's clock",
        ),
        other if format!("{other:?}").contains("CaUsedAsEndEntity") => (
            "the store's certificate is that of a CA".to_owned(),
            "give the store one of its own, which the CA has signed",
        ),
        other => (
            format!("the store's certificate cannot be trusted ({other:?})"),
            "give the store another one, which is for this host name",
        ),
    };
    format!("{what}: {remedy}")
}

/// The names in a certificate, which come as `DnsName("db.internal")`.
fn names(presented: &[String]) -> String {
    let plain = |name: &String| {
        let inner = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
        inner.unwrap_or(name).trim_matches('"').to_owned()
    };
    presented.iter().map(plain).collect::<Vec<_>>().join(", ")
}

fn refusal(alert: AlertDescription) -> String {
    use AlertDescription as Alert;
    match alert {
        Alert::CertificateRequired | Alert::NoCertificate => {
            "the store requires a client certificate: name it, and its key, with \
             sslcert=/path/to/client.pem&sslkey=/path/to/client.key"
                .to_owned()
        }
        Alert::ProtocolVersion => {
            "the store and this server have no TLS version in common: allow TLS 1.2 or 1.3 there".to_owned()
        }
        Alert::UnknownCA
        | Alert::BadCertificate
        | Alert::CertificateExpired
        | Alert::CertificateRevoked
        | Alert::CertificateUnknown
        | Alert::UnsupportedCertificate => format!(
            "the store does not accept this server's certificate ({alert:?}): name one that its CA has signed in sslcert"
        ),
        _ => format!(
            "the store aborted the TLS handshake ({alert:?}): see its log; it may require a client certificate, \
            sslcert=/path/to/client.pem&sslkey=/path/to/client.key"
        ),
    }
}
