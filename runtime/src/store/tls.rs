//! Certificates, the same for every store that is reached over a network.
//!
//! URLs name them as PostgreSQL's own clients do: `sslrootcert` is a file with the certificates of those who may vouch
//! for the store, `sslcert` and `sslkey` are files that say who this server is. All of them are PEM.

use percent_encoding::percent_decode_str;

#[cfg(feature = "tls")]
mod certificates;
#[cfg(feature = "tls")]
mod trouble;
#[cfg(all(feature = "tls", feature = "postgres"))]
mod verifier;

#[cfg(not(feature = "tls"))]
pub(super) use absent::Certificates;
#[cfg(feature = "tls")]
pub use certificates::Certificates;
#[cfg(all(feature = "tls", feature = "postgres"))]
pub(super) use certificates::Trust;
#[cfg(feature = "tls")]
pub(super) use trouble::explain;

/// The files that a URL names. None of them has been looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Files {
    pub(super) root: Option<String>,
    pub(super) certificate: Option<String>,
    pub(super) key: Option<String>,
}

impl Files {
    /// Takes the files out of a URL's parameters, and leaves the others.
    pub(super) fn take_from(parameters: &str) -> Result<(Self, Vec<&str>), String> {
        let mut files = Self::default();
        let mut others = Vec::new();
        for parameter in parameters.split('&').filter(|parameter| !parameter.is_empty()) {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            let place = match name {
                "sslrootcert" => &mut files.root,
                "sslcert" => &mut files.certificate,
                "sslkey" => &mut files.key,
                _ => {
                    others.push(parameter);
                    continue;
                }
            };
            let path = percent_decode_str(value).decode_utf8();
            let path = path.map_err(|_| format!("the path of `{name}` is not UTF-8"))?;
            if path.is_empty() {
                return Err(format!("`{name}` names no file, as in {name}=/etc/ssl/shop.pem"));
            }
            if place.replace(path.into_owned()).is_some() {
                return Err(format!("`{name}` is given twice"));
            }
        }
        if files.certificate.is_some() != files.key.is_some() {
            return Err("`sslcert` and `sslkey` go together: a certificate, and the key to it".to_owned());
        }
        Ok((files, others))
    }

    #[cfg(any(test, not(feature = "tls")))]
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What is left of certificates in a build without TLS: there are none.
#[cfg(not(feature = "tls"))]
mod absent {
    #[derive(Default)]
    pub(in crate::store) struct Certificates(());

    impl Certificates {
        pub(in crate::store) fn and_those_in(self, files: &super::Files) -> Result<Self, String> {
            if files.is_empty() { Ok(self) } else { Err(super::needs_feature("a certificate in the URL")) }
        }

        #[allow(clippy::unused_self, reason = "as in a build with TLS")]
        pub(in crate::store) fn is_empty(&self) -> bool {
            true
        }
    }
}

/// What to say where this build cannot do what a URL asks for.
#[cfg(not(feature = "tls"))]
pub(super) fn needs_feature(what: &str) -> String {
    format!("{what} asks for TLS, which needs the feature `tls` of singleton-jobs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_taken_out_and_the_rest_is_left() {
        let (files, others) =
            Files::take_from("db=2&sslrootcert=%2Fetc%2Fca.pem&sslcert=/c&x&sslkey=/k%20y").unwrap();
        assert_eq!(files.root.as_deref(), Some("/etc/ca.pem"));
        assert_eq!((files.certificate.as_deref(), files.key.as_deref()), (Some("/c"), Some("/k y")));
        assert_eq!(others, ["db=2", "x"]);
        assert!(Files::take_from("").unwrap().0.is_empty());
    }

    #[test]
    fn half_an_identity_and_a_file_without_a_name_are_refused() {
        for (parameters, word) in [
            ("sslcert=/c", "go together"),
            ("sslkey=/k", "go together"),
            ("sslrootcert=", "names no file"),
            ("sslrootcert", "names no file"),
            ("sslrootcert=/a&sslrootcert=/b", "twice"),
            ("sslrootcert=%ff", "UTF-8"),
        ] {
            let error = Files::take_from(parameters).unwrap_err();
            assert!(error.contains(word), "{parameters}: {error}");
        }
    }
}
