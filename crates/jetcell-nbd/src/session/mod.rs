//! One connection: the handshake, then requests.

mod handshake;
mod requests;
#[cfg(test)]
mod tests;

use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::Arc;

use self::handshake::Handshake;
use self::requests::Transmission;
use crate::export::BlockExport;
use crate::memory::ConnectionMemory;
use crate::protocol::MAX_NAME;

/// An NBD server's exports by name, in the order in which they are listed. The first export is also available under
/// the empty name.
pub type NbdExports = Vec<(String, Arc<dyn BlockExport>)>;

/// Reason why an NBD connection ended.
#[derive(Debug)]
pub enum NbdSessionEnd {
    /// The client ended the session, or closed the connection between two requests.
    Closed,
    /// The connection was lost in the middle of a message.
    Lost(io::Error),
    /// The client sent data that is not a valid protocol message.
    InvalidMessage(String),
    /// The handshake timed out.
    HandshakeTimeout,
}

impl From<io::Error> for NbdSessionEnd {
    fn from(error: io::Error) -> NbdSessionEnd {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => NbdSessionEnd::HandshakeTimeout,
            _ => NbdSessionEnd::Lost(error),
        }
    }
}

/// Serves a client until its connection ends. `begins` is called once the handshake is complete.
pub fn serve(
    input: impl Read,
    mut output: impl Write,
    exports: &NbdExports,
    memory: &ConnectionMemory<'_>,
    begins: impl FnOnce() -> io::Result<()>,
    note: &dyn Fn(&str),
) -> NbdSessionEnd {
    let mut input = BufReader::with_capacity(memory.input_bytes(), input);
    match Handshake::new(&mut input, &mut output, exports).run() {
        Ok(chosen) => {
            if let Err(error) = begins() {
                return NbdSessionEnd::Lost(error);
            }
            match Transmission::new(&mut input, output, chosen, memory, note).run() {
                // TCP keepalive found that the client's machine is unreachable.
                NbdSessionEnd::HandshakeTimeout => NbdSessionEnd::Lost(io::ErrorKind::TimedOut.into()),
                end => end,
            }
        }
        Err(end) => end,
    }
}

/// Reads the next `N` bytes of a message.
fn read_bytes<const N: usize>(input: &mut impl Read) -> Result<[u8; N], NbdSessionEnd> {
    let mut bytes = [0; N];
    input.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Reads `length` bytes of data, as announced by the client.
fn read_data(input: &mut impl Read, length: u32, target: &mut Vec<u8>) -> Result<(), NbdSessionEnd> {
    target.clear();
    input.take(length.into()).read_to_end(target)?;
    if target.len() < length as usize {
        return Err(NbdSessionEnd::Lost(io::ErrorKind::UnexpectedEof.into()));
    }
    Ok(())
}

/// Reads and discards data.
fn skip(input: &mut impl Read, length: u32) -> Result<(), NbdSessionEnd> {
    let skipped = io::copy(&mut input.take(length.into()), &mut io::sink())?;
    if skipped < length.into() {
        Err(NbdSessionEnd::Lost(io::ErrorKind::UnexpectedEof.into()))
    } else {
        Ok(())
    }
}

/// Returns true if the client closed the connection at a message boundary.
fn is_closed(input: &mut impl BufRead) -> Result<bool, NbdSessionEnd> {
    Ok(input.fill_buf()?.is_empty())
}

/// An option's data, from which fields are read one after the other.
struct OptionFields<'data>(&'data [u8]);

impl<'data> OptionFields<'data> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*field)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_be_bytes)
    }

    /// Reads a length-prefixed string.
    fn name(&mut self) -> Option<&'data str> {
        let length = usize::try_from(self.u32()?).ok()?;
        if length > MAX_NAME || length > self.0.len() {
            return None;
        }
        let (name, rest) = self.0.split_at(length);
        self.0 = rest;
        str::from_utf8(name).ok()
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
