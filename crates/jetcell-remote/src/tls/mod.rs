//! TLS for server and client. Without the feature `tls` the interface is the same, but no value of its types exists.

#[cfg(not(feature = "tls"))]
mod absent;
#[cfg(feature = "tls")]
mod secured;

use std::path::PathBuf;

#[cfg(not(feature = "tls"))]
pub(crate) use absent::{ClientTls, ServerTls, explained};
#[cfg(feature = "tls")]
pub(crate) use secured::{ClientTls, ServerTls, explained};

/// Files with the certificates and keys of a server.
#[derive(Clone, Debug)]
pub struct ServerFiles {
    /// Certificate of the server, and the intermediate certificates up to the authority.
    pub certificate: PathBuf,
    /// Private key of the certificate.
    pub key: PathBuf,
    /// Authorities that must have signed the certificates of clients. `None` means that clients need no certificate.
    pub client_authorities: Option<PathBuf>,
}

/// Files with the certificates and keys of a client.
#[derive(Clone, Debug, Default)]
pub struct ClientFiles {
    /// Authorities that must have signed the certificates of servers.
    pub authorities: Option<PathBuf>,
    /// Certificate and private key, for servers that require client certificates.
    pub certificate: Option<(PathBuf, PathBuf)>,
}
