//! Server side of a witness connection: keeps the journal for a writer.

use std::cell::Cell;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::time::Duration;

use jetcell_host::{Cancellation, StoppableListener};

use super::journal::JournalLine;
use super::witness::{FileWitness, STORED_REPLY};

/// Maximum length of an accepted line in bytes.
const MAX_LINE_BYTES: usize = 64 << 10;
/// Interval at which the listener checks for cancellation.
const CANCEL_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Maximum number of failed attempts to accept a connection. The listener pauses after each attempt.
const MAX_ACCEPT_FAILURES: u32 = 20;

/// Accepts a connection from one durability test writer, and stores its journal.
pub struct WitnessListener(TcpListener);

impl WitnessListener {
    /// Listens at an address. Port 0 selects any free port.
    ///
    /// # Errors
    /// Returns an error if the address is not local or is already in use.
    pub fn bind(address: impl ToSocketAddrs) -> io::Result<WitnessListener> {
        TcpListener::bind(address).map(WitnessListener)
    }

    /// Returns the address on which the listener accepts connections.
    ///
    /// # Errors
    /// Returns an error if the system does not report the address.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Stores the lines of the first writer until the connection is closed or `cancel` is set, and returns their
    /// number. A writer whose machine loses power never closes its connection. `note` is called for each connection
    /// that could not be accepted, for example because no file descriptor is free.
    ///
    /// # Errors
    /// Returns an error if the journal cannot be written, the peer sends anything other than a journal, or no
    /// connection could be accepted for some time.
    pub fn serve(
        &self,
        journal: &mut FileWitness,
        cancel: &Cancellation,
        note: impl Fn(&io::Error),
    ) -> io::Result<u64> {
        let listener = StoppableListener::with_cancellation(self.0.try_clone()?, cancel)?;
        let (failures, last) = (Cell::new(0), Cell::new(None));
        let accepted = listener.next(|error| {
            note(&error);
            failures.set(failures.get() + 1);
            if failures.get() >= MAX_ACCEPT_FAILURES {
                last.set(Some(error));
                listener.stop();
            }
        });
        let Some((mut stream, _)) = accepted else { return last.take().map_or(Ok(0), Err) };
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(CANCEL_POLL_INTERVAL))?;
        store_lines(&mut stream, journal, cancel)
    }
}

fn store_lines(stream: &mut TcpStream, journal: &mut FileWitness, cancel: &Cancellation) -> io::Result<u64> {
    let (mut received, mut lines) = (Vec::new(), 0);
    let mut buffer = [0; 4096];
    while !cancel.is_cancelled() {
        let count = match stream.read(&mut buffer) {
            Ok(count) => count,
            Err(error) if is_timeout(&error) => continue,
            // The writer's machine became unreachable. This is exactly what the witness is for, so it is not an
            // error.
            Err(_) => return Ok(lines),
        };
        if count == 0 {
            return Ok(lines);
        }
        received.extend_from_slice(buffer.get(..count).unwrap_or_default());
        while let Some(end) = received.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = received.drain(..=end).collect();
            if JournalLine::parse(&line).is_none() {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "the peer is not a writer of a durability test",
                ));
            }
            journal.store_line(&line)?;
            lines += 1;
            if stream.write_all(STORED_REPLY).is_err() {
                return Ok(lines);
            }
        }
        if received.len() > MAX_LINE_BYTES {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the peer sent a line that is too long"));
        }
    }
    Ok(lines)
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use std::net::Shutdown;
    use std::os::fd::OwnedFd;

    use super::*;

    #[test]
    fn the_witness_survives_failed_accepts_but_not_a_broken_socket() {
        let directory = tempfile::tempdir().unwrap();
        let mut journal = FileWitness::create(&directory.path().join("journal")).unwrap();
        let listener = WitnessListener::bind("127.0.0.1:0").unwrap();
        let socket = OwnedFd::from(listener.0.try_clone().unwrap());
        TcpStream::from(socket).shutdown(Shutdown::Both).unwrap();
        let noted = Cell::new(0);
        let note = |_: &io::Error| noted.set(noted.get() + 1);
        let error = listener.serve(&mut journal, &Cancellation::default(), note).unwrap_err();
        assert_eq!((noted.get(), error.raw_os_error()), (MAX_ACCEPT_FAILURES, Some(22)), "{error}");
    }
}
