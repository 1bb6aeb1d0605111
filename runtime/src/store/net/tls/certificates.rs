//! Certificates and keys, from a URL's files or from the application.

use std::fmt;

use crate::store::net::url::UrlParameters;

/// Certificates for a store that is reached over TLS, if they are not in files that its URL names.
///
/// Without a root certificate of your own, the system's are used.
///
/// ```
/// # #[cfg(feature = "redis")] fn open(ca: &[u8], cert: &[u8], key: &[u8]) -> Result<(), jobs::store::StoreError> {
/// use jobs::store::{Certificates, redis::RedisStore};
///
/// let certificates = Certificates::default().root(ca).client(cert, key);
/// let store = RedisStore::open_with("rediss://cache.internal:6380", None, certificates)?;
/// let jobs = jobs::builder().store(store);
/// # drop(jobs);
/// # Ok(()) }
/// ```
#[derive(Clone, Default)]
pub struct Certificates {
    pub(super) roots: Option<Pem>,
    /// Certificate and key of this server.
    pub(super) own: Option<(Pem, Pem)>,
}

/// The content of a PEM file, and its name for errors.
#[derive(Clone)]
#[cfg_attr(not(feature = "tls"), allow(dead_code, reason = "only TLS reads them"))]
pub(super) struct Pem {
    pub(super) bytes: Vec<u8>,
    pub(super) name: String,
}

impl Certificates {
    /// Reads the files that a URL names: `sslrootcert`, `sslcert` and `sslkey`.
    pub(crate) fn of_url(parameters: &UrlParameters<'_>) -> Result<Self, String> {
        let [root, certificate, key] = file_names(parameters)?;
        if cfg!(not(feature = "tls")) && (root.is_some() || certificate.is_some()) {
            return Err(needs_feature("a certificate in the URL"));
        }
        let read = |path: Option<String>, parameter| path.map(|path| Pem::read(&path, parameter)).transpose();
        let roots = read(root.filter(|root| root != "system"), "sslrootcert")?;
        Ok(Self { roots, own: read(certificate, "sslcert")?.zip(read(key, "sslkey")?) })
    }

    /// Adds those of the application.
    pub(crate) fn and(self, others: Self) -> Result<Self, String> {
        if (self.roots.is_some() && others.roots.is_some()) || (self.own.is_some() && others.own.is_some()) {
            return Err("a certificate is set both in the URL and by the application; remove one".to_owned());
        }
        Ok(Self { roots: self.roots.or(others.roots), own: self.own.or(others.own) })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.roots.is_none() && self.own.is_none()
    }
}

#[cfg(feature = "tls")]
impl Certificates {
    /// Trusts the servers whose certificates one of these authorities has signed, and no others. The text is PEM, as in
    /// the file that `sslrootcert` names.
    #[must_use]
    pub fn root(mut self, pem: &[u8]) -> Self {
        self.roots = Some(Pem::of(pem, "root certificate"));
        self
    }

    /// Proves to the store who this server is. Both texts are PEM, as in the files that `sslcert` and `sslkey` name.
    #[must_use]
    pub fn client(mut self, certificate: &[u8], key: &[u8]) -> Self {
        self.own = Some((Pem::of(certificate, "client certificate"), Pem::of(key, "client key")));
        self
    }
}

impl Pem {
    fn read(path: &str, parameter: &str) -> Result<Self, String> {
        let name = format!("{path} ({parameter})");
        let bytes = std::fs::read(path).map_err(|error| format!("cannot read {name}: {error}"))?;
        Ok(Self { bytes, name })
    }

    #[cfg(feature = "tls")]
    fn of(bytes: &[u8], name: &str) -> Self {
        Self { bytes: bytes.to_owned(), name: format!("the {name} of the application") }
    }
}

/// The paths in `sslrootcert`, `sslcert` and `sslkey`.
pub(super) fn file_names(parameters: &UrlParameters<'_>) -> Result<[Option<String>; 3], String> {
    let path = |name: &str| match parameters.get(name)? {
        Some(path) if path.is_empty() => {
            Err(format!("`{name}` names no file, as in {name}=/etc/ssl/shop.pem"))
        }
        path => Ok(path),
    };
    let [root, certificate, key] = [path("sslrootcert")?, path("sslcert")?, path("sslkey")?];
    if certificate.is_some() != key.is_some() {
        return Err("`sslcert` and `sslkey` go together: a certificate, and the key to it".to_owned());
    }
    Ok([root, certificate, key])
}

/// The error where this build cannot do what a URL asks for.
pub(crate) fn needs_feature(what: &str) -> String {
    format!("{what} asks for TLS, which needs the feature `tls` of singleton-jobs")
}

/// Shows the names only: one of them may be a key.
impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let roots = self.roots.as_ref().map(|pem| &pem.name);
        let own = self.own.as_ref().map(|(certificate, _)| &certificate.name);
        f.debug_struct("Certificates").field("root", &roots).field("client", &own).finish()
    }
}
