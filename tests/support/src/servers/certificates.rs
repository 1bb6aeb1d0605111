//! Certificates of the test's own, made when they are needed.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    SignatureAlgorithm,
};

use crate::folder::TempFolder;

/// Somebody who vouches for servers and clients.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// The certificate that vouches for the others.
    pub certificate: String,
    key: String,
}

/// A certificate and the key to it, in PEM.
pub struct Identity {
    pub certificate: String,
    pub key: String,
}

/// The same in files.
pub struct Paths {
    pub certificate: String,
    pub key: String,
}

impl Identity {
    pub fn put_into(&self, folder: &TempFolder, name: &str) -> Paths {
        let certificate = folder.put(&format!("{name}.pem"), &self.certificate);
        Paths { certificate, key: folder.put(&format!("{name}.key"), &self.key) }
    }
}

impl Authority {
    pub fn new(name: &str) -> Self {
        Self::with(name, &rcgen::PKCS_ECDSA_P256_SHA256)
    }

    /// One that signs with another kind of key.
    pub fn with(name: &str, kind: &'static SignatureAlgorithm) -> Self {
        let mut params = named(name, &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate_for(kind).expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate").pem();
        Self { certificate, key: key.serialize_pem(), issuer: Issuer::new(params, key) }
    }

    /// Its own certificate, which is not meant for a server.
    pub fn itself(&self) -> Identity {
        Identity { certificate: self.certificate.clone(), key: self.key.clone() }
    }

    /// A certificate for a server of these names.
    pub fn server(&self, names: &[&str]) -> Identity {
        self.sign(&named("server", names))
    }

    /// A certificate for a server of these names whose time is over.
    pub fn expired_server(&self, names: &[&str]) -> Identity {
        let mut params = named("server", names);
        params.not_before = rcgen::date_time_ymd(2001, 1, 1);
        params.not_after = rcgen::date_time_ymd(2002, 1, 1);
        self.sign(&params)
    }

    /// A certificate for a client.
    pub fn client(&self, name: &str) -> Identity {
        let mut params = named(name, &[]);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(&params)
    }

    fn sign(&self, params: &CertificateParams) -> Identity {
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        Identity { certificate: certificate.pem(), key: key.serialize_pem() }
    }
}

fn named(name: &str, names: &[&str]) -> CertificateParams {
    let names: Vec<_> = names.iter().map(ToString::to_string).collect();
    let mut params = CertificateParams::new(names).expect("host names");
    params.distinguished_name.push(DnType::CommonName, name);
    params
}
