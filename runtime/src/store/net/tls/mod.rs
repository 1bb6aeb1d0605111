//! Certificates, the same for every store that is reached over a network.
//!
//! URLs name them as PostgreSQL's own clients do: `sslrootcert` is a file with the certificates of trusted authorities,
//! `sslcert` and `sslkey` are the certificate and the key of this server. All of them are PEM.

mod certificates;
#[cfg(feature = "tls")]
mod client_config;
#[cfg(feature = "tls")]
mod errors;
#[cfg(feature = "tls")]
mod verifier;

pub use certificates::Certificates;
#[cfg(not(feature = "tls"))]
pub(crate) use certificates::needs_feature;
#[cfg(all(feature = "tls", any(feature = "mysql", feature = "postgres")))]
pub(crate) use client_config::Trust;
#[cfg(feature = "tls")]
pub(crate) use errors::explain;

#[cfg(test)]
mod tests;
