//! Certificates, the same for every store that is reached over a network.
//!
//! URLs name them as PostgreSQL's own clients do: `sslrootcert` is a file with the certificates of those who may vouch
//! for the store, `sslcert` and `sslkey` are files that say who this server is. All of them are PEM.

#[cfg(feature = "tls")]
mod certificates;
#[cfg(feature = "tls")]
mod trouble;
#[cfg(feature = "tls")]
mod verifier;

#[cfg(feature = "tls")]
pub use certificates::Certificates;
#[cfg(all(feature = "tls", feature = "postgres"))]
pub(crate) use certificates::Trust;
#[cfg(feature = "tls")]
pub(crate) use trouble::explain;

use super::url::Parameters;

/// The files that a URL names. None of them has been looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Files {
    pub(crate) root: Option<String>,
    pub(crate) certificate: Option<String>,
    pub(crate) key: Option<String>,
}

impl Files {
    pub(crate) fn named_in(parameters: &Parameters<'_>) -> Result<Self, String> {
        let path = |name: &str| match parameters.get(name)? {
            Some(path) if path.is_empty() => {
                Err(format!("`{name}` names no file, as in {name}=/etc/ssl/shop.pem"))
            }
            path => Ok(path),
        };
        let files = Self { root: path("sslrootcert")?, certificate: path("sslcert")?, key: path("sslkey")? };
        if files.certificate.is_some() != files.key.is_some() {
            return Err("`sslcert` and `sslkey` go together: a certificate, and the key to it".to_owned());
        }
        Ok(files)
    }
}

/// What is left of certificates in a build without TLS: there are none.
#[cfg(not(feature = "tls"))]
#[derive(Default)]
pub(crate) struct Certificates(());

#[cfg(not(feature = "tls"))]
impl Certificates {
    pub(crate) fn and_those_in(self, files: &Files) -> Result<Self, String> {
        if *files == Files::default() { Ok(self) } else { Err(needs_feature("a certificate in the URL")) }
    }

    #[allow(clippy::unused_self, reason = "as in a build with TLS")]
    pub(crate) fn is_empty(&self) -> bool {
        true
    }
}

/// What to say where this build cannot do what a URL asks for.
#[cfg(not(feature = "tls"))]
pub(crate) fn needs_feature(what: &str) -> String {
    format!("{what} asks for TLS, which needs the feature `tls` of singleton-jobs")
}

#[cfg(test)]
mod tests;
