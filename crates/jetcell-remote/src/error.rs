//! Errors returned when starting a server or connecting to one.

use std::borrow::Cow;
use std::io;
use std::path::PathBuf;

use jetcell_sync::Arc;
use jetcell_vfs::io_error_with_advice;

/// Error returned when a server cannot start. Nothing has been changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The export name cannot be part of an address.
    #[error("`{0}` is not a valid directory name")]
    Name(String),
    /// Two directories have the same name.
    #[error("{} and {} would both be named {name}", one.display(), other.display())]
    TwoDirectories {
        /// The shared name.
        name: String,
        /// First directory.
        one: PathBuf,
        /// Second directory.
        other: PathBuf,
    },
    /// Symbolic links could lead clients out of a directory.
    #[error("{}: the server would follow symbolic links in it, so clients could escape from the directory", .0.display())]
    Unconfined(PathBuf),
    /// The address is reachable from other hosts and has no TLS, so they could read the databases in transit.
    #[error("{0} is reachable from other machines")]
    Unsecured(std::net::SocketAddr),
    /// The program was built without the feature `tls`.
    #[error("this build does not support TLS")]
    NoTls,
    /// The system allows too few open files.
    #[error("{clients} clients need {needed} open files, but the limit is {limit}")]
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
        #[source]
        error: io::Error,
    },
    /// A certificate or key file is missing or invalid.
    #[error("{}: {error}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Description of the problem.
        #[source]
        error: TlsFileError,
    },
}

/// Error returned when a client fails to connect. The client has changed nothing on the other host and holds no locks
/// there.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// The host does not respond, or the connection was lost. Retrying the call later may succeed.
    #[error("{0}")]
    Unreachable(#[source] UnreachableReason),
    /// The program was built without the feature `tls`.
    #[error("this build does not support TLS")]
    NoTls,
    /// The server's certificate was not signed by a known authority, or has expired.
    #[error("the server certificate is not trusted: {0}")]
    Certificate(#[source] UntrustedReason),
    /// The server's certificate was issued for another name.
    #[error("the server certificate is not valid for the name {0}")]
    HostName(String),
    /// The server requires a client certificate, or does not accept the one it received.
    #[error("the server requires a client certificate")]
    ClientCertificate,
    /// The server does not accept the token.
    #[error("the server rejected the token")]
    Token,
    /// The server uses a different version of the protocol.
    #[error("the server uses protocol version {theirs}, but this program uses version {ours}")]
    Version {
        /// Version of this program.
        ours: u16,
        /// Version that the server reported.
        theirs: String,
    },
    /// The server does not use this protocol.
    #[error("the server at this address is not running jetcell serve, or its security settings differ: {0}")]
    Protocol(#[source] ProtocolError),
    /// The connection was lost, and the locks held through it were released. Another process may have acquired them.
    #[error("the connection was lost, and the lock on the server was released: {0}")]
    LockLost(#[source] UnreachableReason),
    /// The address is invalid.
    #[error("{address}: {error}")]
    Address {
        /// The address.
        address: String,
        /// Start of an address of this kind, for example `tls://`.
        prefix: &'static str,
        /// The mistake in the address.
        #[source]
        error: AddressError,
    },
    /// The address of another machine begins with `tcp://`.
    #[error("{0}: tcp:// is not encrypted and is allowed only for connections on the same machine")]
    Unencrypted(String),
    /// No certificate of the authority was specified.
    #[error("the authority that signed the server certificate is unknown")]
    NoAuthority,
    /// A certificate or key file is missing or invalid.
    #[error("{}: {error}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Description of the problem.
        #[source]
        error: TlsFileError,
    },
    /// The host in the address cannot be the name in a certificate.
    #[error("{0} is not a valid host name")]
    InvalidHostName(String),
}

/// Reason why a server's certificate is not trusted.
#[derive(Clone, Debug, thiserror::Error)]
pub enum UntrustedReason {
    /// No known authority signed the certificate.
    #[error("the issuer is unknown")]
    UnknownIssuer,
    /// The certificate is invalid, for example expired. The text comes from the TLS library.
    #[error("{0}")]
    Invalid(String),
}

/// Difference between this protocol and that of a server.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ProtocolError {
    /// A reply is not a message of the protocol.
    #[error("{0}")]
    Message(#[source] Arc<io::Error>),
    /// The server refused the greeting with this text.
    #[error("{0}")]
    Refused(String),
    /// The reply to the greeting has an unexpected type.
    #[error("the server sent an unexpected reply")]
    UnexpectedReply,
    /// TLS failed.
    #[error("{0}")]
    Tls(Arc<dyn std::error::Error + Send + Sync>),
}

/// Reason why a client has no connection to a server.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UnreachableReason {
    /// The name lookup failed.
    #[error("failed to resolve the name {host}: {error}")]
    Resolve {
        /// The name that was looked up.
        host: String,
        /// Reason for the failure.
        #[source]
        error: Arc<io::Error>,
    },
    /// The name has no address.
    #[error("the name {0} does not resolve to an address")]
    NoAddress(String),
    /// The server does not respond to the connection attempt.
    #[error("the connection timed out")]
    TimedOut,
    /// The connection failed.
    #[error("{0}")]
    Io(#[source] Arc<io::Error>),
    /// The server closed the connection during the TLS handshake.
    #[error(
        "the server closed the connection during the handshake; it may not use TLS, or may have reached its limit of clients"
    )]
    ClosedInHandshake,
    /// The server closed the connection instead of replying to the greeting.
    #[error("the server closed the connection; it may require TLS, or may have reached its limit of clients")]
    ClosedInGreeting,
    /// The server closed an established connection.
    #[error("the server closed the connection")]
    Closed,
    /// The file was opened through a connection that was lost.
    #[error("the connection that opened the file was lost")]
    EarlierConnection,
    /// The client has not connected yet, or has lost the connection.
    #[error("the client is not connected")]
    NotConnected,
}

impl From<io::Error> for UnreachableReason {
    fn from(error: io::Error) -> UnreachableReason {
        UnreachableReason::Io(Arc::new(error))
    }
}

/// Reason why an address is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// The address contains a user.
    #[error(
        "an address cannot contain a user or a password, because all users of this machine could read them"
    )]
    Password,
    /// The address contains no directory name.
    #[error("the address does not contain a directory name")]
    NoName,
    /// The address contains a path instead of a name.
    #[error("the address must contain a single directory name after the host")]
    SeveralNames,
    /// The address contains no port.
    #[error("the address does not contain a port")]
    NoPort,
    /// The host is missing, or the port is not a number.
    #[error("the host or the port is invalid")]
    HostOrPort,
}

/// Reason why a certificate or key file cannot be used.
#[derive(Clone, Debug, thiserror::Error)]
pub enum TlsFileError {
    /// The file cannot be read.
    #[error("{0}")]
    Read(#[source] Arc<io::Error>),
    /// The file does not contain certificates in the PEM format.
    #[error("failed to read PEM certificates from the file: {0}")]
    Certificates(Arc<dyn std::error::Error + Send + Sync>),
    /// The file is empty.
    #[error("the file does not contain a certificate")]
    NoCertificate,
    /// The file does not contain a key in the PEM format.
    #[error("failed to read a PEM key from the file: {0}")]
    Key(Arc<dyn std::error::Error + Send + Sync>),
    /// The key belongs to another certificate.
    #[error("the key does not match {}: {error}", certificate.display())]
    OtherKey {
        /// File of the certificate.
        certificate: PathBuf,
        /// Description of the mismatch.
        error: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// A certificate in the file does not belong to a certificate authority.
    #[error("the file is not a certificate of a certificate authority: {0}")]
    NotAnAuthority(Arc<dyn std::error::Error + Send + Sync>),
    /// The TLS library rejected the configuration.
    #[error("{0}")]
    Tls(Arc<dyn std::error::Error + Send + Sync>),
}

/// Advice to a user whose program was built without the feature `tls`.
const BUILD_WITH_TLS: &str = "build it with `--features tls` or `--features full`";

impl ServeError {
    /// Returns what the user can do about the error, for example `serve a directory on a local file system`.
    pub fn advice(&self) -> Option<Cow<'static, str>> {
        Some(Cow::Borrowed(match self {
            ServeError::Name(_) => "use NAME=DIR, where NAME is one word without `/`",
            ServeError::TwoDirectories { .. } => "use NAME=DIR to choose a different name for one of them",
            ServeError::Unconfined(_) => "serve a directory on a local file system",
            ServeError::Unsecured(_) => "specify --tls-cert FILE and --tls-key FILE, or listen on 127.0.0.1",
            ServeError::NoTls => BUILD_WITH_TLS,
            ServeError::Descriptors { .. } => "raise it with ulimit -n, or use a lower --max-clients",
            ServeError::Address { .. } | ServeError::File { .. } => return None,
        }))
    }
}

impl RemoteError {
    /// Returns true if retrying the call later may succeed without any change to the settings.
    pub fn is_temporary(&self) -> bool {
        matches!(self, RemoteError::Unreachable(_) | RemoteError::LockLost(_))
    }

    /// Returns what the user can do about the error, for example `repeat the command`.
    pub fn advice(&self) -> Option<Cow<'static, str>> {
        Some(Cow::Borrowed(match self {
            RemoteError::NoTls => BUILD_WITH_TLS,
            RemoteError::Certificate(_) => "specify the certificate of the issuing authority with --tls-ca",
            RemoteError::HostName(_) => "use a name that is in the certificate",
            RemoteError::ClientCertificate => "specify --tls-client-cert and --tls-client-key",
            RemoteError::Token => "specify the server's token file with --token-file",
            RemoteError::Version { .. } => "use the same version of jetcell on both hosts",
            RemoteError::LockLost(_) => "repeat the command",
            RemoteError::Address { prefix, .. } => {
                return Some(Cow::Owned(format!(
                    "use {prefix}HOST:PORT/NAME, with one of the names that jetcell serve printed"
                )));
            }
            RemoteError::Unencrypted(_) => "use tls://",
            RemoteError::NoAuthority => "specify its certificate with --tls-ca",
            RemoteError::Unreachable(
                UnreachableReason::Resolve { .. }
                | UnreachableReason::NoAddress(_)
                | UnreachableReason::TimedOut
                | UnreachableReason::Io(_),
            ) => "start jetcell serve on that host, or use a different address",
            RemoteError::Unreachable(_)
            | RemoteError::Protocol(_)
            | RemoteError::File { .. }
            | RemoteError::InvalidHostName(_) => return None,
        }))
    }

    /// Converts the error for callers that use only file operations. The text includes the advice, except for a lost
    /// connection, which the caller reports.
    pub(crate) fn into_io(self) -> io::Error {
        let advice = match self {
            RemoteError::Unreachable(_) => None,
            _ => self.advice(),
        };
        io_error_with_advice(io::ErrorKind::NotConnected, self, advice)
    }
}
