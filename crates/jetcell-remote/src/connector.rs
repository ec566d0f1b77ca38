//! Connections from a client to its server.

use std::io::ErrorKind;
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use jetcell_sync::Arc;

use crate::address::{HostAddress, Scheme};
use crate::channel::{Channel, TimedStream, TransferDeadline};
use crate::error::{RemoteError, UnreachableReason};
use crate::tls::{ClientTls, ClientTlsFiles, explained};

/// Timeouts for client connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClientLimits {
    /// Timeout for opening a connection, including the handshake.
    pub connect_timeout: Duration,
    /// Timeout for a reply.
    pub reply_timeout: Duration,
    /// Interval between keepalive requests on an idle connection; `None` for no keepalive.
    pub keepalive_interval: Option<Duration>,
}

impl Default for ClientLimits {
    fn default() -> ClientLimits {
        ClientLimits {
            connect_timeout: Duration::from_secs(10),
            reply_timeout: Duration::from_secs(30),
            keepalive_interval: Some(Duration::from_secs(5)),
        }
    }
}

/// Interface for opening streams to one server.
pub trait Connector: Send + Sync {
    /// Opens a new stream that is already secured but on which no greeting has been exchanged.
    ///
    /// `within` is the time limit for opening the stream. Afterwards the client sets a time limit for each reply.
    ///
    /// # Errors
    ///
    /// Returns an error if the server does not respond or cannot be authenticated.
    fn connect(&self, within: Duration) -> Result<ClientStream, RemoteError>;

    /// Returns a more specific error for a stream that failed during its greeting, if the transport can determine
    /// one.
    fn explain(&self, error: &std::io::Error) -> Option<RemoteError> {
        let _ = error;
        None
    }
}

/// A client's stream to a server, with a deadline for replies.
pub struct ClientStream {
    /// The byte stream.
    pub channel: Box<dyn Channel>,
    /// Deadline for transfers; `None` if transfers never block.
    pub(crate) deadline: Option<TransferDeadline>,
}

impl ClientStream {
    /// Creates a stream whose transfers never block.
    pub fn without_deadline(channel: Box<dyn Channel>) -> ClientStream {
        ClientStream { channel, deadline: None }
    }

    /// Sets the time limit for the next transfers.
    pub(crate) fn set_deadline(&self, time: Duration) {
        if let Some(deadline) = &self.deadline {
            deadline.set(time);
        }
    }
}

/// A connector that opens network connections.
pub struct NetworkConnector {
    address: HostAddress,
    tls: Option<ClientTls>,
}

impl NetworkConnector {
    /// Creates a connector to a server. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// Returns an error if one of the client's files is missing or invalid.
    pub fn new(address: &HostAddress, files: &ClientTlsFiles) -> Result<NetworkConnector, RemoteError> {
        let tls = match address.scheme {
            Scheme::Tls => Some(ClientTls::new(files)?),
            Scheme::Tcp => None,
        };
        Ok(NetworkConnector { address: address.clone(), tls })
    }

    fn stream(&self, within: Duration) -> Result<TcpStream, RemoteError> {
        let HostAddress { scheme, host, port } = &self.address;
        let addresses = (host.as_str(), *port).to_socket_addrs().map_err(|error| {
            RemoteError::Unreachable(UnreachableReason::Resolve {
                host: host.clone(),
                error: Arc::new(error),
            })
        })?;
        let mut why = UnreachableReason::NoAddress(host.clone());
        for address in addresses {
            if *scheme == Scheme::Tcp && !address.ip().is_loopback() {
                return Err(RemoteError::Unencrypted(self.address.to_string()));
            }
            match TcpStream::connect_timeout(&address, within) {
                Ok(stream) => return Ok(stream),
                Err(error) if matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock) => {
                    why = UnreachableReason::TimedOut;
                }
                Err(error) => why = error.into(),
            }
        }
        Err(RemoteError::Unreachable(why))
    }
}

impl Connector for NetworkConnector {
    fn connect(&self, within: Duration) -> Result<ClientStream, RemoteError> {
        let deadline = TransferDeadline::within(within);
        let stream = TimedStream::new(self.stream(within)?, deadline.clone())
            .map_err(|error| RemoteError::Unreachable(error.into()))?;
        let channel = match &self.tls {
            None => Box::new(stream),
            Some(tls) => tls.connect(&self.address.host, stream)?,
        };
        Ok(ClientStream { channel, deadline: Some(deadline) })
    }

    fn explain(&self, error: &std::io::Error) -> Option<RemoteError> {
        explained(error, &self.address.host)
    }
}
