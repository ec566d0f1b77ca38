//! One connection: the handshake, then requests.

mod handshake;
mod requests;
#[cfg(test)]
mod tests;

use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::Arc;

use self::handshake::Handshake;
use self::requests::Transmission;
use crate::export::Export;
use crate::memory::ConnectionMemory;
use crate::protocol::LONGEST_NAME;

/// Exports by name, in the order in which they are listed. The first one also has the empty name.
pub type Exports = Vec<(String, Arc<dyn Export>)>;

/// Why a connection ended.
#[derive(Debug)]
pub enum End {
    /// The client said so, or closed the connection between two requests.
    Closed,
    /// The connection was lost within a message.
    Lost(io::Error),
    /// The client sent what is no message of the protocol.
    Garbage(String),
    /// The client said nothing for too long in its handshake.
    Silent,
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> End {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => End::Silent,
            _ => End::Lost(error),
        }
    }
}

/// Serves a client until its connection ends. `begins` is called after the handshake.
pub fn serve(
    input: impl Read,
    mut output: impl Write,
    exports: &Exports,
    memory: &ConnectionMemory<'_>,
    begins: impl FnOnce() -> io::Result<()>,
    note: &dyn Fn(&str),
) -> End {
    let mut input = BufReader::with_capacity(memory.input_bytes(), input);
    match Handshake::new(&mut input, &mut output, exports).run() {
        Ok(chosen) => {
            if let Err(error) = begins() {
                return End::Lost(error);
            }
            match Transmission::new(&mut input, output, chosen, memory, note).run() {
                // The keepalive of the system found that the machine of the client is gone.
                End::Silent => End::Lost(io::ErrorKind::TimedOut.into()),
                end => end,
            }
        }
        Err(end) => end,
    }
}

/// Reads a message's next bytes.
fn bytes<const N: usize>(input: &mut impl Read) -> Result<[u8; N], End> {
    let mut bytes = [0; N];
    input.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Reads data of a length that the client gave.
fn data(input: &mut impl Read, length: u32, target: &mut Vec<u8>) -> Result<(), End> {
    target.clear();
    input.take(length.into()).read_to_end(target)?;
    if target.len() < length as usize {
        return Err(End::Lost(io::ErrorKind::UnexpectedEof.into()));
    }
    Ok(())
}

/// Passes over data.
fn skip(input: &mut impl Read, length: u32) -> Result<(), End> {
    let skipped = io::copy(&mut input.take(length.into()), &mut io::sink())?;
    if skipped < length.into() { Err(End::Lost(io::ErrorKind::UnexpectedEof.into())) } else { Ok(()) }
}

/// Whether the client closed the connection, where a message may begin.
fn is_closed(input: &mut impl BufRead) -> Result<bool, End> {
    Ok(input.fill_buf()?.is_empty())
}

/// The data of an option, from which fields are taken.
struct Fields<'data>(&'data [u8]);

impl<'data> Fields<'data> {
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

    /// A length and so many bytes of text.
    fn name(&mut self) -> Option<&'data str> {
        let length = usize::try_from(self.u32()?).ok()?;
        if length > LONGEST_NAME || length > self.0.len() {
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
