//! TLS for server and client. Without the feature `tls` the interface is the same, but its types have no values.

#[cfg(not(feature = "tls"))]
mod absent;
#[cfg(feature = "tls")]
mod secured;

use std::path::PathBuf;

#[cfg(not(feature = "tls"))]
pub(crate) use absent::{ClientTls, ServerTls, explained};
#[cfg(feature = "tls")]
pub(crate) use secured::{ClientTls, ServerTls, explained};

/// Paths to a server's certificate and key files.
#[derive(Clone, Debug)]
pub struct ServerTlsFiles {
    /// The server's certificate, followed by the intermediate certificates up to the authority.
    pub certificate: PathBuf,
    /// The certificate's private key.
    pub key: PathBuf,
    /// Authorities that must have signed client certificates. `None` means that clients do not need a certificate.
    pub client_authorities: Option<PathBuf>,
}

/// Paths to a client's certificate and key files.
#[derive(Clone, Debug, Default)]
pub struct ClientTlsFiles {
    /// Authorities that must have signed server certificates.
    pub authorities: Option<PathBuf>,
    /// Certificate and private key, for servers that require client certificates.
    pub certificate: Option<(PathBuf, PathBuf)>,
}
