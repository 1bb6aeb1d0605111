//! Encrypted connections, and channel binding.
//!
//! This does not use `tokio-postgres-rustls`: a cargo feature cannot add a dependency only if another feature is on, so
//! Redis over TLS would come with a PostgreSQL client.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use ring::digest::{self, Algorithm, SHA256, SHA384, SHA512};
use rustls::client::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::Socket;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;

/// Makes the handshakes of a store's connections.
#[derive(Clone)]
pub(crate) struct RustlsConnector(pub(crate) Arc<ClientConfig>);

/// A handshake with the server of this name.
pub(crate) struct TlsHandshake(TlsConnector, String);

/// An encrypted stream.
pub(crate) struct EncryptedStream(tokio_rustls::client::TlsStream<Socket>);

impl MakeTlsConnect<Socket> for RustlsConnector {
    type Stream = EncryptedStream;
    type TlsConnect = TlsHandshake;
    type Error = io::Error;

    fn make_tls_connect(&mut self, host: &str) -> io::Result<TlsHandshake> {
        Ok(TlsHandshake(self.0.clone().into(), host.to_owned()))
    }
}

impl TlsConnect<Socket> for TlsHandshake {
    type Stream = EncryptedStream;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<EncryptedStream>> + Send>>;

    fn connect(self, socket: Socket) -> Self::Future {
        Box::pin(async move {
            let Self(connector, host) = self;
            let host = ServerName::try_from(host).map_err(io::Error::other)?;
            connector.connect(host, socket).await.map(EncryptedStream)
        })
    }
}

impl TlsStream for EncryptedStream {
    /// Binds the proof of a password to this connection, so that it cannot be forwarded over another.
    fn channel_binding(&self) -> ChannelBinding {
        let (_, session) = self.0.get_ref();
        let certificate = session.peer_certificates().and_then(<[_]>::first);
        let hash = certificate.and_then(|der| Some(digest::digest(hash_of_signature(der)?, der)));
        hash.map_or_else(ChannelBinding::none, |hash| {
            ChannelBinding::tls_server_end_point(hash.as_ref().to_vec())
        })
    }
}

/// The first bytes of the object identifiers of signature algorithms.
const ECDSA_WITH_SHA2: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03];
const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01];

/// Returns the hash algorithm of a certificate's signature; SHA-256 in place of weaker ones, by RFC 5929.
fn hash_of_signature(der: &[u8]) -> Option<&'static Algorithm> {
    // A certificate is a sequence: what is signed, the algorithm, the signature.
    let (certificate, _) = element(der)?;
    let (_signed, rest) = element(certificate)?;
    let (how, _) = element(rest)?;
    let (last, family) = element(how)?.0.split_last()?;
    match (family, last) {
        (ECDSA_WITH_SHA2, 2) | (RSA, 4 | 5 | 11) => Some(&SHA256),
        (ECDSA_WITH_SHA2, 3) | (RSA, 12) => Some(&SHA384),
        (ECDSA_WITH_SHA2, 4) | (RSA, 13) => Some(&SHA512),
        // Others name no hash, so there is no channel binding.
        _ => None,
    }
}

/// Returns the content of the first element in some DER, and the rest.
fn element(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&[_tag, length], rest) = der.split_first_chunk()?;
    if length < 0x80 {
        return rest.split_at_checked(usize::from(length));
    }
    let (length, rest) = rest.split_at_checked(usize::from(length & 0x7f))?;
    let length =
        length.iter().try_fold(0_usize, |all, byte| all.checked_mul(256)?.checked_add(usize::from(*byte)))?;
    rest.split_at_checked(length)
}

impl AsyncRead for EncryptedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for EncryptedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, buffer)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
