//! The TLS configuration that follows from [`Certificates`].

use std::sync::Arc;

use rustls::client::ClientConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{Error, InconsistentKeys, RootCertStore};

use super::certificates::{Certificates, Pem};
use super::verifier::AnyHostVerifier;

/// What the store's certificate has to prove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(any(feature = "mysql", feature = "postgres")),
    allow(dead_code, reason = "Redis always proves all")
)]
pub(crate) enum Trust {
    /// A trusted authority signed it, and it names the host.
    Host,
    /// A trusted authority signed it, for any name.
    Authority,
    /// Nothing: this protects against listeners, not against impostors.
    Nothing,
}

impl Certificates {
    /// Returns the configuration. Checks that all certificates can be read, and that certificate and key belong together.
    pub(crate) fn client_config(&self, trust: Trust) -> Result<ClientConfig, String> {
        // The application's provider, if it has chosen one.
        let chosen = CryptoProvider::get_default().cloned();
        let provider = chosen.unwrap_or_else(|| Arc::new(rustls::crypto::ring::default_provider()));
        let algorithms = provider.signature_verification_algorithms;
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.map_err(|error| error.to_string())?;
        let any_name = |roots| Arc::new(AnyHostVerifier { roots, algorithms });
        let builder = match trust {
            Trust::Host => builder.with_root_certificates(self.roots()?),
            Trust::Authority if self.roots.is_none() => {
                return Err("sslmode=verify-ca needs sslrootcert=/path/to/ca.pem: any host has a certificate of one of the \
                system's authorities; write sslmode=verify-full, or name the CA"
                    .to_owned());
            }
            Trust::Authority => {
                builder.dangerous().with_custom_certificate_verifier(any_name(Some(self.roots()?)))
            }
            Trust::Nothing => builder.dangerous().with_custom_certificate_verifier(any_name(None)),
        };
        let Some((certificate, key)) = &self.own else { return Ok(builder.with_no_client_auth()) };
        let made = builder.with_client_auth_cert(certificate.certificates()?, key.key()?);
        made.map_err(|error| match error {
            Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
                format!("{} is not the key to {}", key.name, certificate.name)
            }
            _ => format!("{} cannot be used with {}: {error}", certificate.name, key.name),
        })
    }

    fn roots(&self) -> Result<RootCertStore, String> {
        let mut roots = RootCertStore::empty();
        if let Some(pem) = &self.roots {
            for certificate in pem.certificates()? {
                let added = roots.add(certificate);
                added.map_err(|error| format!("{} holds an unusable certificate: {error}", pem.name))?;
            }
            return Ok(roots);
        }
        let found = rustls_native_certs::load_native_certs();
        roots.add_parsable_certificates(found.certs);
        if roots.is_empty() {
            let why = found.errors.first().map(|error| format!(" ({error})")).unwrap_or_default();
            return Err(format!(
                "this machine has no root certificates{why}: install `ca-certificates`, or name the store's with \
                 sslrootcert=/path/to/ca.pem"
            ));
        }
        Ok(roots)
    }

    /// Returns the certificates for the Redis client, which makes a configuration for each connection.
    #[cfg(feature = "redis")]
    pub(crate) fn for_redis(&self) -> Result<redis::TlsCertificates, String> {
        self.client_config(Trust::Host)?;
        // The client reads the system's root certificates each time, even if it is given others.
        if let Some(error) = rustls_native_certs::load_native_certs().errors.first() {
            return Err(format!("this machine's root certificates cannot be read: {error}"));
        }
        provide_cryptography();
        let client_tls = self.own.as_ref().map(|(certificate, key)| redis::ClientTlsConfig {
            client_cert: certificate.bytes.clone(),
            client_key: key.bytes.clone(),
        });
        let root_cert = self.roots.as_ref().map(|pem| pem.bytes.clone());
        Ok(redis::TlsCertificates { client_tls, root_cert })
    }
}

/// Installs a provider for clients that use the process's, and panic if there is none and the build has several.
#[cfg(any(feature = "mysql", feature = "redis"))]
fn provide_cryptography() {
    if CryptoProvider::get_default().is_none() {
        let _somebody_was_faster = rustls::crypto::ring::default_provider().install_default();
    }
}

#[cfg(feature = "mysql")]
impl Certificates {
    /// Returns the certificates for the MySQL client, which makes a configuration for each connection.
    pub(crate) fn for_mysql(&self, trust: Trust) -> Result<mysql_async::SslOpts, String> {
        use mysql_async::{ClientIdentity, SslOpts};

        self.client_config(trust)?;
        provide_cryptography();
        let identity = self.own.as_ref().map(|(certificate, key)| {
            ClientIdentity::new(certificate.bytes.clone().into(), key.bytes.clone().into())
        });
        let options = SslOpts::default().with_client_identity(identity);
        let roots = match (trust, &self.roots) {
            (Trust::Nothing, _) => return Ok(options.with_danger_accept_invalid_certs(true)),
            (_, Some(pem)) => vec![pem.bytes.clone().into()],
            (_, None) => {
                let found = rustls_native_certs::load_native_certs().certs;
                found.iter().map(|certificate| certificate.to_vec().into()).collect()
            }
        };
        // Not the roots that the client brings along: the machine's decide, as for every other store.
        let options = options.with_root_certs(roots).with_disable_built_in_roots(true);
        Ok(options.with_danger_skip_domain_validation(trust == Trust::Authority))
    }
}

impl Pem {
    fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, String> {
        let name = &self.name;
        let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&self.bytes).collect();
        match found {
            Ok(found) if !found.is_empty() => Ok(found),
            Ok(_) => Err(format!("{name} holds no certificate: PEM has one after `BEGIN CERTIFICATE`")),
            Err(error) => Err(format!("{name} is not PEM: {error}")),
        }
    }

    fn key(&self) -> Result<PrivateKeyDer<'static>, String> {
        // The error is not repeated, because it may quote a line of the key.
        PrivateKeyDer::from_pem_slice(&self.bytes).map_err(|_| {
            format!(
                "{} holds no private key: PEM has one after `BEGIN PRIVATE KEY`; one with a passphrase has to be \
                 decrypted first",
                self.name
            )
        })
    }
}
