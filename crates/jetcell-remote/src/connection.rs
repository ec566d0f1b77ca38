//! A client connection: a greeting, followed by requests and their replies in order.

use std::io::{self, ErrorKind};
use std::time::Duration;

use jetcell_sync::Arc;

use crate::connector::{ClientLimits, ClientStream, Connector};
use crate::error::{ProtocolError, RemoteError, UnreachableReason};
use crate::exports::AccessToken;
use crate::frame::{MAX_FRAME, read_frame, write_frame};
use crate::reply::RemoteReply;
use crate::request::{RemoteRequest, VERSION};

/// Welcome message that a server sends in response to a client's greeting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerWelcome {
    /// True if clients may take over the role of the active side.
    pub allows_handover: bool,
    /// Host name of the server.
    pub host: String,
}

pub(crate) struct HostConnection {
    stream: ClientStream,
    /// Number of the next request.
    next: u32,
    reply_timeout: Duration,
}

impl HostConnection {
    /// Connects and greets the server.
    pub fn open(
        connector: &dyn Connector,
        token: &AccessToken,
        limits: ClientLimits,
    ) -> Result<(HostConnection, ServerWelcome), RemoteError> {
        let stream = connector.connect(limits.connect_timeout)?;
        let mut connection = HostConnection { stream, next: 1, reply_timeout: limits.connect_timeout };
        let hello = RemoteRequest::Hello { version: VERSION, token: token.bytes().to_vec() };
        let answered = connection.send(&hello).and_then(|number| connection.receive(number));
        let reply = answered.map_err(|error| {
            connector.explain(&error).unwrap_or_else(|| match error.kind() {
                ErrorKind::InvalidData => RemoteError::Protocol(ProtocolError::Message(Arc::new(error))),
                ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset => {
                    RemoteError::Unreachable(UnreachableReason::ClosedInGreeting)
                }
                _ => RemoteError::Unreachable(error.into()),
            })
        })?;
        connection.reply_timeout = limits.reply_timeout;
        match reply {
            RemoteReply::Welcome { allows_handover, host } => {
                Ok((connection, ServerWelcome { allows_handover, host }))
            }
            RemoteReply::Failed { kind: ErrorKind::PermissionDenied, .. } => Err(RemoteError::Token),
            RemoteReply::Failed { kind: ErrorKind::Unsupported, what } => {
                Err(RemoteError::Version { ours: VERSION, theirs: what })
            }
            RemoteReply::Failed { what, .. } => Err(RemoteError::Protocol(ProtocolError::Refused(what))),
            _ => Err(RemoteError::Protocol(ProtocolError::UnexpectedReply)),
        }
    }

    /// Sends a request. Returns its number.
    pub fn send(&mut self, request: &RemoteRequest) -> io::Result<u32> {
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        self.stream.set_deadline(self.reply_timeout);
        write_frame(&mut *self.stream.channel, number, &request.encode())?;
        Ok(number)
    }

    /// Receives the reply to the oldest unanswered request. `number` is the number of this request.
    pub fn receive(&mut self, number: u32) -> io::Result<RemoteReply> {
        loop {
            self.stream.set_deadline(self.reply_timeout);
            let frame = read_frame(&mut *self.stream.channel, MAX_FRAME)?;
            let Some((answered, message)) = frame else { return Err(ErrorKind::UnexpectedEof.into()) };
            if answered != number {
                return Err(io::Error::new(ErrorKind::InvalidData, "the reply belongs to another request"));
            }
            match RemoteReply::decode(&message)? {
                RemoteReply::Working => {}
                reply => return Ok(reply),
            }
        }
    }
}
