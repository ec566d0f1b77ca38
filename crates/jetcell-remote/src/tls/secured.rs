//! TLS 1.3 connections. No other version is supported.

use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;

use jetcell_vfs::{read_input_bytes, read_secret};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{
    AlertDescription, CertificateError, ClientConfig, ClientConnection, Error, RootCertStore, ServerConfig,
    ServerConnection, StreamOwned,
    crypto::{CryptoProvider, ring},
};

use super::{ClientTlsFiles, ServerTlsFiles};
use crate::channel::{Channel, TimedStream};
use crate::error::{
    ProtocolError, RemoteError, ServeError, TlsFileError, UnreachableReason, UntrustedReason,
};

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

const VERSIONS: [&rustls::SupportedProtocolVersion; 1] = [&rustls::version::TLS13];

/// Maximum length of a certificate or key file. The bundle with all authorities of a Linux distribution is a quarter
/// of this size.
const MAX_PEM: u64 = 1 << 20;

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsFileError> {
    let text = read_input_bytes(path, MAX_PEM).map_err(|error| TlsFileError::Read(Arc::new(error)))?;
    let found = CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>();
    let found = found.map_err(|error| TlsFileError::Certificates(Arc::new(error)))?;
    if found.is_empty() { Err(TlsFileError::NoCertificate) } else { Ok(found) }
}

fn key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsFileError> {
    let text = read_secret(path, MAX_PEM).map_err(|error| TlsFileError::Read(Arc::new(error)))?;
    PrivateKeyDer::from_pem_slice(text.as_bytes()).map_err(|error| TlsFileError::Key(Arc::new(error)))
}

fn roots(path: &Path) -> Result<RootCertStore, TlsFileError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|error| TlsFileError::NotAnAuthority(Arc::new(error)))?;
    }
    Ok(roots)
}

/// A server's TLS configuration.
pub(crate) struct ServerTls(Arc<ServerConfig>);

impl ServerTls {
    /// Loads a server's files.
    ///
    /// # Errors
    ///
    /// Returns an error if a file is missing or invalid.
    pub fn new(files: &ServerTlsFiles) -> Result<ServerTls, ServeError> {
        let wrong = |path: &Path| {
            let path = path.to_path_buf();
            move |error| ServeError::File { path, error }
        };
        let builder = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&VERSIONS)
            .map_err(|error| wrong(&files.certificate)(TlsFileError::Tls(Arc::new(error))))?;
        let builder = match &files.client_authorities {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let roots = Arc::new(roots(path).map_err(wrong(path))?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider())
                    .build()
                    .map_err(|error| wrong(path)(TlsFileError::Tls(Arc::new(error))))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let chain = certificates(&files.certificate).map_err(wrong(&files.certificate))?;
        let key = key(&files.key).map_err(wrong(&files.key))?;
        let configuration = builder.with_single_cert(chain, key).map_err(|error| {
            let (certificate, error) = (files.certificate.clone(), Arc::new(error));
            wrong(&files.key)(TlsFileError::OtherKey { certificate, error })
        })?;
        Ok(ServerTls(Arc::new(configuration)))
    }

    /// Performs the handshake with a client.
    pub fn accept(&self, stream: TimedStream) -> io::Result<Box<dyn Channel>> {
        let connection = ServerConnection::new(self.0.clone()).map_err(io::Error::other)?;
        let mut stream = StreamOwned::new(connection, stream);
        while stream.conn.is_handshaking() {
            if let Err(error) = stream.conn.complete_io(&mut stream.sock) {
                // Send the reason to the client if the connection still works.
                let _ = stream.conn.write_tls(&mut stream.sock);
                return Err(error);
            }
        }
        Ok(Box::new(stream))
    }
}

/// A client's TLS configuration.
pub(crate) struct ClientTls(Arc<ClientConfig>);

impl ClientTls {
    /// Loads a client's files.
    ///
    /// # Errors
    ///
    /// Returns an error if a file is missing or invalid.
    pub fn new(files: &ClientTlsFiles) -> Result<ClientTls, RemoteError> {
        let wrong = |path: &Path| {
            let path = path.to_path_buf();
            move |error| RemoteError::File { path, error }
        };
        let Some(authorities) = &files.authorities else {
            return Err(RemoteError::NoAuthority);
        };
        let builder = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&VERSIONS)
            .map_err(|error| wrong(authorities)(TlsFileError::Tls(Arc::new(error))))?
            .with_root_certificates(roots(authorities).map_err(wrong(authorities))?);
        let configuration = match &files.certificate {
            None => builder.with_no_client_auth(),
            Some((certificate, key_file)) => {
                let chain = certificates(certificate).map_err(wrong(certificate))?;
                let key = key(key_file).map_err(wrong(key_file))?;
                builder.with_client_auth_cert(chain, key).map_err(|error| {
                    let (certificate, error) = (certificate.clone(), Arc::new(error));
                    wrong(key_file)(TlsFileError::OtherKey { certificate, error })
                })?
            }
        };
        Ok(ClientTls(Arc::new(configuration)))
    }

    /// Performs the handshake with the server named `host`.
    pub fn connect(&self, host: &str, stream: TimedStream) -> Result<Box<dyn Channel>, RemoteError> {
        let name = ServerName::try_from(host.to_string())
            .map_err(|_| RemoteError::InvalidHostName(host.to_string()))?;
        let connection = ClientConnection::new(self.0.clone(), name)
            .map_err(|error| RemoteError::Protocol(ProtocolError::Tls(Arc::new(error))))?;
        let mut stream = StreamOwned::new(connection, stream);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock).map_err(|error| {
                explained(&error, host).unwrap_or_else(|| match error.kind() {
                    ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset => {
                        RemoteError::Unreachable(UnreachableReason::ClosedInHandshake)
                    }
                    _ => RemoteError::Unreachable(error.into()),
                })
            })?;
        }
        Ok(Box::new(stream))
    }
}

/// Translates a TLS handshake error. Returns `None` for other errors. `host` is the name for which the certificate
/// must be valid.
pub(crate) fn explained(error: &io::Error, host: &str) -> Option<RemoteError> {
    let error = error.get_ref()?.downcast_ref::<Error>()?;
    Some(match error {
        Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => RemoteError::HostName(host.to_string()),
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            RemoteError::Certificate(UntrustedReason::UnknownIssuer)
        }
        Error::InvalidCertificate(error) => {
            RemoteError::Certificate(UntrustedReason::Invalid(error.to_string()))
        }
        Error::AlertReceived(
            AlertDescription::CertificateRequired
            | AlertDescription::BadCertificate
            | AlertDescription::UnknownCA
            | AlertDescription::DecryptError
            | AlertDescription::AccessDenied,
        ) => RemoteError::ClientCertificate,
        other => RemoteError::Protocol(ProtocolError::Tls(Arc::new(other.clone()))),
    })
}
