//! A client connection: a greeting, followed by requests and their replies in order.

use std::io::{self, ErrorKind};
use std::time::Duration;

use crate::connector::{ClientLimits, Connector, Stream};
use crate::error::RemoteError;
use crate::exports::Token;
use crate::frame::{LONGEST, read_frame, write_frame};
use crate::reply::Reply;
use crate::request::{Request, VERSION};

/// Information that the server sends in response to the greeting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Welcome {
    /// True if clients may take over the role of the active side.
    pub allows_handover: bool,
    /// Host name of the server.
    pub host: String,
}

pub(crate) struct Connection {
    stream: Stream,
    /// Number of the next request.
    next: u32,
    answer: Duration,
}

impl Connection {
    /// Connects and greets the server.
    pub fn open(
        connector: &dyn Connector,
        token: &Token,
        limits: ClientLimits,
    ) -> Result<(Connection, Welcome), RemoteError> {
        let stream = connector.connect(limits.connect)?;
        let mut connection = Connection { stream, next: 1, answer: limits.connect };
        let hello = Request::Hello { version: VERSION, token: token.bytes().to_vec() };
        let answered = connection.send(&hello).and_then(|number| connection.receive(number));
        let reply = answered.map_err(|error| {
            connector.explain(&error).unwrap_or_else(|| match error.kind() {
                ErrorKind::InvalidData => RemoteError::Protocol(error.to_string()),
                ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset => RemoteError::Unreachable(
                    "the server closed the connection; it may require TLS, or have too many clients".into(),
                ),
                _ => RemoteError::Unreachable(error.to_string()),
            })
        })?;
        connection.answer = limits.answer;
        match reply {
            Reply::Welcome { allows_handover, host } => Ok((connection, Welcome { allows_handover, host })),
            Reply::Failed { kind: ErrorKind::PermissionDenied, .. } => Err(RemoteError::Token),
            Reply::Failed { kind: ErrorKind::Unsupported, what } => {
                Err(RemoteError::Version { ours: VERSION, theirs: what })
            }
            Reply::Failed { what, .. } => Err(RemoteError::Protocol(what)),
            _ => Err(RemoteError::Protocol("the server sent an unexpected reply".into())),
        }
    }

    /// Sends a request. Returns its number.
    pub fn send(&mut self, request: &Request) -> io::Result<u32> {
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        self.stream.allow(self.answer);
        write_frame(&mut *self.stream.channel, number, &request.encode())?;
        Ok(number)
    }

    /// Receives the reply to the oldest unanswered request, which has this number.
    pub fn receive(&mut self, number: u32) -> io::Result<Reply> {
        loop {
            self.stream.allow(self.answer);
            let frame = read_frame(&mut *self.stream.channel, LONGEST)?;
            let Some((answered, message)) = frame else { return Err(ErrorKind::UnexpectedEof.into()) };
            if answered != number {
                return Err(io::Error::new(ErrorKind::InvalidData, "the reply belongs to another request"));
            }
            match Reply::decode(&message)? {
                Reply::Working => {}
                reply => return Ok(reply),
            }
        }
    }
}
