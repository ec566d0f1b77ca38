//! Errors returned when starting a server or connecting to one.

use std::io;
use std::path::PathBuf;

/// Error returned when a server cannot start. Nothing has been changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The export name cannot be part of an address.
    #[error("`{0}` is not a valid directory name; use NAME=DIR, where NAME is one word without `/`")]
    Name(String),
    /// Two directories have the same name.
    #[error("{} and {} would both be named {name}; use NAME=DIR to choose a different name for one of them", one.display(), other.display())]
    TwoDirectories {
        /// The shared name.
        name: String,
        /// First directory.
        one: PathBuf,
        /// Second directory.
        other: PathBuf,
    },
    /// Symbolic links could lead clients out of a directory.
    #[error("{}: the server would follow symbolic links in it, so clients could escape from the directory; serve \
     a directory on a local file system", .0.display())]
    Unconfined(PathBuf),
    /// Other hosts could read the databases in transit.
    #[error(
        "{0} is reachable from other machines; specify --tls-cert FILE and --tls-key FILE, or listen on \
         127.0.0.1"
    )]
    Unsecured(std::net::SocketAddr),
    /// The program was built without the feature `tls`.
    #[error("this build does not support TLS; build it with `--features tls` or `--features full`")]
    NoTls,
    /// The system allows too few open files.
    #[error(
        "{clients} clients need {needed} open files, but the limit is {limit}; raise it with ulimit -n, or \
         use a lower --max-clients"
    )]
    Descriptors {
        /// Number of clients with the token.
        clients: u64,
        /// Minimum number of descriptors for this number of clients.
        needed: u64,
        /// Number of files that the process may have open.
        limit: u64,
    },
    /// The address cannot be used.
    #[error("failed to listen on {address}: {error}")]
    Address {
        /// The address.
        address: std::net::SocketAddr,
        /// Reason for the failure.
        error: io::Error,
    },
    /// A certificate or key file is missing or invalid.
    #[error("{}: {what}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Description of the problem.
        what: String,
    },
}

/// Error returned when a client fails to connect. The client has changed nothing on the other host and holds no locks
/// there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// The host does not respond, or the connection was lost. Retrying the call later may succeed.
    #[error("{0}")]
    Unreachable(String),
    /// The program was built without the feature `tls`.
    #[error("this build does not support TLS; build it with `--features tls` or `--features full`")]
    NoTls,
    /// The server's certificate was not signed by a known authority, or has expired.
    #[error(
        "the server certificate is not trusted: {0}; specify the certificate of the issuing authority with \
         --tls-ca"
    )]
    Certificate(String),
    /// The server's certificate was issued for another name.
    #[error("the server certificate is not valid for the name {0}; use a name that is in the certificate")]
    HostName(String),
    /// The server requires a client certificate, or does not accept the one it received.
    #[error("the server requires a client certificate; specify --tls-client-cert and --tls-client-key")]
    ClientCertificate,
    /// The server does not accept the token.
    #[error("the server rejected the token; specify the server's token file with --token-file")]
    Token,
    /// The server uses a different version of the protocol.
    #[error(
        "the server uses protocol version {theirs}, but this program uses version {ours}; use the same \
         version of jetcell on both hosts"
    )]
    Version {
        /// Version of this program.
        ours: u16,
        /// Version that the server reported.
        theirs: String,
    },
    /// The server does not use this protocol.
    #[error("the server at this address is not running jetcell serve, or its security settings differ: {0}")]
    Protocol(String),
    /// The connection was lost, and the locks held through it were released. Another process may have acquired them.
    #[error("the connection was lost, and the lock on the server was released: {0}; repeat the command")]
    LockLost(String),
    /// An address or one of the client's files is invalid.
    #[error("{0}")]
    Usage(String),
}

impl RemoteError {
    /// Returns true if retrying the call later may succeed without any change to the settings.
    pub fn is_temporary(&self) -> bool {
        matches!(self, RemoteError::Unreachable(_) | RemoteError::LockLost(_))
    }

    /// Converts the error for callers that use only file operations.
    pub(crate) fn into_io(self) -> io::Error {
        io::Error::new(io::ErrorKind::NotConnected, self)
    }
}
