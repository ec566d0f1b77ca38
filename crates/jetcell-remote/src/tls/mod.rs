//! TLS of both sides. The interface is the same without the feature `tls`, but no value of its types exists then.

#[cfg(not(feature = "tls"))]
mod absent;
#[cfg(feature = "tls")]
mod secured;

use std::path::PathBuf;

#[cfg(not(feature = "tls"))]
pub(crate) use absent::{ClientTls, ServerTls, explained};
#[cfg(feature = "tls")]
pub(crate) use secured::{ClientTls, ServerTls, explained};

/// The files of a server.
#[derive(Clone, Debug)]
pub struct ServerFiles {
    /// Its certificate, and those between it and the authority.
    pub certificate: PathBuf,
    /// The key of the certificate.
    pub key: PathBuf,
    /// The authorities of certificates that clients must have. `None`: they need none.
    pub client_authorities: Option<PathBuf>,
}

/// The files of a client.
#[derive(Clone, Debug, Default)]
pub struct ClientFiles {
    /// The authorities of the certificates of servers.
    pub authorities: Option<PathBuf>,
    /// A certificate and its key, for servers that demand one.
    pub certificate: Option<(PathBuf, PathBuf)>,
}
