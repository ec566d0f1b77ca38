//! The witness: records which operations were acknowledged to the writer as durable, in a place that the cut does not
//! affect.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jetcell_vfs::{parent_directory, sync_directory};

use super::journal::{Journal, JournalError, JournalLine};

/// Maximum time that the writer waits for a witness.
const WITNESS_TIMEOUT: Duration = Duration::from_secs(20);
/// The witness's reply when it has stored a line.
pub(crate) const STORED_REPLY: &[u8] = b"kept\n";

/// A witness that stores the lines of a durability journal. Stored lines survive the cut.
pub trait Witness {
    /// Stores a line. Returns only after the line has been stored.
    ///
    /// # Errors
    /// Returns an error if the witness is unreachable or cannot store the line.
    fn store(&mut self, line: &JournalLine) -> io::Result<()>;
}

/// Location of a witness.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WitnessLocation {
    /// Address of a listening witness, such as `host:9200`.
    Tcp(String),
    /// A new file.
    File(PathBuf),
}

/// Text that begins with `tcp:` is an address. All other text is a path.
impl From<OsString> for WitnessLocation {
    fn from(text: OsString) -> WitnessLocation {
        match text.to_str().and_then(|text| text.strip_prefix("tcp:")) {
            Some(address) => WitnessLocation::Tcp(address.into()),
            None => WitnessLocation::File(text.into()),
        }
    }
}

/// A witness that stores the journal in a file, which must be on a different device from the tested storage.
pub struct FileWitness(File);

impl FileWitness {
    /// Creates a new journal file.
    ///
    /// # Errors
    /// Returns an error if the file exists or cannot be created.
    pub fn create(path: &Path) -> io::Result<FileWitness> {
        let file = OpenOptions::new().write(true).create_new(true).open(path)?;
        sync_directory(parent_directory(path))?;
        Ok(FileWitness(file))
    }

    /// Stores a line exactly as it was received.
    pub(crate) fn store_line(&mut self, line: &[u8]) -> io::Result<()> {
        self.0.write_all(line)?;
        self.0.sync_data()
    }
}

impl Witness for FileWitness {
    fn store(&mut self, line: &JournalLine) -> io::Result<()> {
        self.store_line(line.text().as_bytes())
    }
}

/// A witness that stores the journal in memory, for use when the power cut is simulated within this process.
#[derive(Default)]
pub struct MemoryWitness(pub(crate) String);

impl MemoryWitness {
    /// Returns the journal.
    ///
    /// # Errors
    /// Returns an error if the first line is missing.
    pub fn journal(&self) -> Result<Journal, JournalError> {
        Journal::read(self.0.as_bytes())
    }
}

impl Witness for MemoryWitness {
    fn store(&mut self, line: &JournalLine) -> io::Result<()> {
        self.0 += &line.text();
        Ok(())
    }
}

/// A connection to a witness on another host or in another process.
pub struct TcpWitness {
    stream: BufReader<TcpStream>,
}

impl TcpWitness {
    /// Connects to a witness that listens at `host:port`.
    ///
    /// # Errors
    /// Returns an error if the connection cannot be established.
    pub fn connect(address: &str) -> io::Result<TcpWitness> {
        let mut last =
            io::Error::new(io::ErrorKind::NotFound, "the host name does not resolve to an address");
        for address in address.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, WITNESS_TIMEOUT) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    stream.set_read_timeout(Some(WITNESS_TIMEOUT))?;
                    stream.set_write_timeout(Some(WITNESS_TIMEOUT))?;
                    return Ok(TcpWitness { stream: BufReader::new(stream) });
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

impl Witness for TcpWitness {
    fn store(&mut self, line: &JournalLine) -> io::Result<()> {
        self.stream.get_mut().write_all(line.text().as_bytes())?;
        let mut answer = Vec::new();
        self.stream.by_ref().take(STORED_REPLY.len() as u64).read_until(b'\n', &mut answer)?;
        if answer == STORED_REPLY {
            Ok(())
        } else {
            Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the witness closed the connection"))
        }
    }
}
