//! The witness: keeps what the writer was told to be durable, where the cut cannot take it.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;

use super::journal::{Journal, JournalError, Line};

/// How long the writer waits for a witness.
const PATIENCE: Duration = Duration::from_secs(20);
/// What the witness answers when it has a line.
pub(super) const KEPT: &[u8] = b"kept\n";

/// Takes the lines of a journal. A line that was taken survives the cut.
pub trait Witness {
    /// Returns when the line is kept.
    ///
    /// # Errors
    /// The witness cannot be reached, or cannot keep the line.
    fn take(&mut self, line: &Line) -> io::Result<()>;
}

/// A journal in a file, which must be on another device than what is tested.
pub struct FileWitness(File);

impl FileWitness {
    /// A new journal.
    ///
    /// # Errors
    /// The file exists, or cannot be made.
    pub fn create(path: &Path) -> io::Result<FileWitness> {
        let file = OpenOptions::new().write(true).create_new(true).open(path)?;
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(parent.unwrap_or(Path::new(".")))?.sync_all()?;
        Ok(FileWitness(file))
    }

    /// Keeps a line as it was received.
    pub(super) fn keep(&mut self, line: &[u8]) -> io::Result<()> {
        self.0.write_all(line)?;
        self.0.sync_data()
    }
}

impl Witness for FileWitness {
    fn take(&mut self, line: &Line) -> io::Result<()> {
        self.keep(line.text().as_bytes())
    }
}

/// A journal in memory, for storage that is cut within this process.
#[derive(Default)]
pub struct MemoryWitness(pub(super) String);

impl MemoryWitness {
    /// What it knows.
    ///
    /// # Errors
    /// It has no first line.
    pub fn journal(&self) -> Result<Journal, JournalError> {
        Journal::read(self.0.as_bytes())
    }
}

impl Witness for MemoryWitness {
    fn take(&mut self, line: &Line) -> io::Result<()> {
        self.0 += &line.text();
        Ok(())
    }
}

/// A witness on another host, or in another process.
pub struct TcpWitness {
    stream: BufReader<TcpStream>,
}

impl TcpWitness {
    /// Connects to a witness that listens at `host:port`.
    ///
    /// # Errors
    /// Nothing listens there.
    pub fn connect(address: &str) -> io::Result<TcpWitness> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in address.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, PATIENCE) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    stream.set_read_timeout(Some(PATIENCE))?;
                    stream.set_write_timeout(Some(PATIENCE))?;
                    return Ok(TcpWitness { stream: BufReader::new(stream) });
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

impl Witness for TcpWitness {
    fn take(&mut self, line: &Line) -> io::Result<()> {
        self.stream.get_mut().write_all(line.text().as_bytes())?;
        let mut answer = Vec::new();
        self.stream.by_ref().take(KEPT.len() as u64).read_until(b'\n', &mut answer)?;
        match answer == KEPT {
            true => Ok(()),
            false => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the witness has ended")),
        }
    }
}
