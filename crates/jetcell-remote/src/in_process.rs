//! Connections to a server in the same process, without threads. A simulation can cut such a connection after any
//! byte.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::time::Duration;

use jetcell_sync::Arc;

use crate::connector::{ClientStream, Connector};
use crate::error::{RemoteError, UnreachableReason};
use crate::exports::ExportedDirectories;
use crate::frame::{read_frame, write_frame};
use crate::session::ServerSession;

/// Decides how a simulated connection behaves: whether it opens, and how many bytes it delivers.
pub trait SimulatedLink: Send + Sync {
    /// Returns true if a connection can be opened now.
    fn can_connect(&self) -> bool;
    /// Returns how many of the next `bytes` bytes are delivered. If the result is less than `bytes`, the connection is
    /// then cut.
    fn delivered_bytes(&self, bytes: usize) -> usize;
}

/// A connector to a server in the same process. The server processes requests during each write call.
pub struct InProcessConnector {
    exports: Arc<ExportedDirectories>,
    link: Arc<dyn SimulatedLink>,
}

impl InProcessConnector {
    /// Creates a connector to a server that has these exports.
    pub fn new(exports: &Arc<ExportedDirectories>, wire: Arc<dyn SimulatedLink>) -> InProcessConnector {
        InProcessConnector { exports: exports.clone(), link: wire }
    }
}

impl Connector for InProcessConnector {
    fn connect(&self, _within: Duration) -> Result<ClientStream, RemoteError> {
        if !self.link.can_connect() {
            return Err(RemoteError::Unreachable(UnreachableReason::TimedOut));
        }
        Ok(ClientStream::without_deadline(Box::new(InProcessStream {
            session: Some(ServerSession::new(&self.exports)),
            wire: self.link.clone(),
            requests: Vec::new(),
            replies: VecDeque::new(),
        })))
    }
}

struct InProcessStream {
    /// The server side; `None` if the connection was cut or the server has closed it.
    session: Option<ServerSession>,
    wire: Arc<dyn SimulatedLink>,
    requests: Vec<u8>,
    replies: VecDeque<u8>,
}

impl InProcessStream {
    /// Cuts the connection. The server immediately ends the session and releases its locks.
    fn disconnect(&mut self) -> io::Error {
        self.session = None;
        self.replies.clear();
        ErrorKind::ConnectionReset.into()
    }

    /// Processes the requests that have arrived in full.
    fn process_requests(&mut self) {
        while let Some(session) = &mut self.session {
            let Some(length) = self.requests.first_chunk::<4>() else { return };
            let length = u32::from_le_bytes(*length) as usize;
            let longest = session.max_frame_len();
            if length <= longest && self.requests.len() < length + 4 {
                return;
            }
            let mut rest = &self.requests[..];
            let Ok(Some((number, message))) = read_frame(&mut rest, longest) else {
                self.session = None;
                return;
            };
            let used = self.requests.len() - rest.len();
            let answer = session.process(&message);
            self.requests.drain(..used);
            let mut frame = Vec::new();
            if write_frame(&mut frame, number, &answer.reply.encode()).is_ok() {
                self.replies.extend(frame);
            }
            if answer.disconnect_reason.is_some() {
                self.session = None;
            }
        }
    }
}

impl Write for InProcessStream {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        if self.session.is_none() {
            return Err(ErrorKind::ConnectionReset.into());
        }
        let through = self.wire.delivered_bytes(data.len()).min(data.len());
        self.requests.extend_from_slice(&data[..through]);
        self.process_requests();
        if through < data.len() { Err(self.disconnect()) } else { Ok(data.len()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for InProcessStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let there = self.replies.len().min(buffer.len());
        if there == 0 {
            return if buffer.is_empty() || self.session.is_none() {
                Ok(0)
            } else {
                Err(ErrorKind::TimedOut.into())
            };
        }
        let through = self.wire.delivered_bytes(there).min(there);
        if through == 0 {
            return Err(self.disconnect());
        }
        self.replies.read_exact(&mut buffer[..through])?;
        if through < there {
            self.disconnect();
        }
        Ok(through)
    }
}
