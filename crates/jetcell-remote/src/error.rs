//! Why a server cannot start, and why a client is not served.

use std::io;
use std::path::PathBuf;

/// Why a server cannot start. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// A name of an export that has no place in an address.
    #[error("`{0}` is no name for a directory; write NAME=DIR, where NAME is one word without `/`")]
    Name(String),
    /// Two directories with one name.
    #[error("{} and {} would both be {name}; write NAME=DIR to give one of them another name", one.display(), other.display())]
    TwoDirectories {
        /// The name.
        name: String,
        /// A directory.
        one: PathBuf,
        /// The other one.
        other: PathBuf,
    },
    /// Links could lead clients out of a directory.
    #[error("{}: links in it would be followed, so clients could leave it; serve a directory of a local file system", .0.display())]
    Unconfined(PathBuf),
    /// Other machines could read the databases on their way.
    #[error(
        "{0} can be reached from other machines; give --tls-cert FILE and --tls-key FILE with it, or listen on 127.0.0.1"
    )]
    Unsecured(std::net::SocketAddr),
    /// The program was built without the feature `tls`.
    #[error("this build has no TLS; build it with `--features tls` or `--features full`")]
    NoTls,
    /// The address cannot be used.
    #[error("{address} cannot be listened on: {error}")]
    Address {
        /// The address.
        address: std::net::SocketAddr,
        /// Why.
        error: io::Error,
    },
    /// A file with a certificate or a key.
    #[error("{}: {what}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
}

/// Why a client has no connection. It has changed nothing on the other host, and holds no locks there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// The host does not answer, or the connection broke. The same call may succeed later.
    #[error("{0}")]
    Unreachable(String),
    /// The program was built without the feature `tls`.
    #[error("this build has no TLS; build it with `--features tls` or `--features full`")]
    NoTls,
    /// The certificate of the server is not signed by a known authority, or is out of date.
    #[error(
        "the certificate of the server is not trusted: {0}; give the file of the authority that signed it with --tls-ca"
    )]
    Certificate(String),
    /// The certificate of the server has another name.
    #[error("the certificate of the server is not for the name {0}; use a name that is in the certificate")]
    HostName(String),
    /// The server wants a certificate of the client, or another one.
    #[error("the server demands a certificate of this client; give --tls-client-cert and --tls-client-key")]
    ClientCertificate,
    /// The token is another one.
    #[error(
        "the server does not know the token; give the file with the token of the server with --token-file"
    )]
    Token,
    /// The other side has another version of the protocol.
    #[error(
        "the server has version {theirs} of the protocol, this program {ours}; use the same version of jetcell on both hosts"
    )]
    Version {
        /// Of this program.
        ours: u16,
        /// Of the server, as it says.
        theirs: String,
    },
    /// The other side does not speak the protocol.
    #[error("there is no jetcell serve at this address, or one with other security: {0}")]
    Protocol(String),
    /// The connection was lost, and with it the locks of this client: another process may have taken them.
    #[error("the connection was lost, and with it a lock there: {0}; repeat the command")]
    LockLost(String),
    /// An address or a file of this side is wrong.
    #[error("{0}")]
    Usage(String),
}

impl RemoteError {
    /// Whether the same call may succeed later, although no setting is changed.
    pub fn is_passing(&self) -> bool {
        matches!(self, RemoteError::Unreachable(_) | RemoteError::LockLost(_))
    }

    /// The error for callers that know files only.
    pub(crate) fn into_io(self) -> io::Error {
        io::Error::new(io::ErrorKind::NotConnected, self)
    }
}
