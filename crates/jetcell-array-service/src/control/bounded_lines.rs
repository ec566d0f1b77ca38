//! Line-based reading from a connection.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Maximum time that a read waits for bytes. After that, the caller can check other conditions.
const READ_TIMEOUT: Duration = Duration::from_millis(100);
const READ_CHUNK: usize = 16384;

/// Result of reading one line.
#[derive(PartialEq, Eq, Debug)]
pub enum LineRead {
    Line(Vec<u8>),
    /// No complete line has arrived yet.
    Incomplete,
    /// The peer has closed its sending side of the connection.
    Closed,
}

/// Reads lines that are at most `max_line_bytes` bytes long.
pub struct BoundedLineReader {
    stream: UnixStream,
    pending: Vec<u8>,
    /// Number of pending bytes that were searched without finding the end of a line.
    searched: usize,
    max_line_bytes: usize,
}

impl BoundedLineReader {
    pub fn new(stream: UnixStream, max_line_bytes: usize) -> io::Result<BoundedLineReader> {
        stream.set_read_timeout(Some(READ_TIMEOUT))?;
        Ok(BoundedLineReader { stream, pending: vec![], searched: 0, max_line_bytes })
    }

    pub fn stream(&self) -> &UnixStream {
        &self.stream
    }

    /// Returns the next line if it is complete after at most one read. The caller can therefore check other conditions
    /// even if bytes arrive one by one.
    pub fn read_line(&mut self) -> io::Result<LineRead> {
        if let Some(line) = self.take_line() {
            return Ok(LineRead::Line(line));
        }
        let mut chunk = [0; READ_CHUNK];
        match self.stream.read(&mut chunk) {
            Ok(0) => return Ok(LineRead::Closed),
            Ok(read) => self.pending.extend_from_slice(&chunk[..read]),
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted => {}
                _ => return Err(error),
            },
        }
        match self.take_line() {
            Some(line) => Ok(LineRead::Line(line)),
            None if self.searched > self.max_line_bytes => {
                Err(io::Error::new(io::ErrorKind::InvalidData, "a line is too long"))
            }
            None => Ok(LineRead::Incomplete),
        }
    }

    fn take_line(&mut self) -> Option<Vec<u8>> {
        let end = self.pending[self.searched..].iter().position(|byte| *byte == b'\n');
        let Some(end) = end.map(|end| self.searched + end) else {
            self.searched = self.pending.len();
            return None;
        };
        let rest = self.pending.split_off(end + 1);
        let mut line = std::mem::replace(&mut self.pending, rest);
        line.pop();
        self.searched = 0;
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn partial_lines_are_joined_up_to_a_maximum_length() {
        let (mut one, other) = UnixStream::pair().unwrap();
        let mut lines = BoundedLineReader::new(other, 3 * READ_CHUNK).unwrap();
        assert_eq!(lines.read_line().unwrap(), LineRead::Incomplete);
        one.write_all(b"first\nsec").unwrap();
        assert_eq!(lines.read_line().unwrap(), LineRead::Line(b"first".to_vec()));
        assert_eq!(lines.read_line().unwrap(), LineRead::Incomplete);
        one.write_all(b"ond\n\n").unwrap();
        assert_eq!(lines.read_line().unwrap(), LineRead::Line(b"second".to_vec()));
        assert_eq!(lines.read_line().unwrap(), LineRead::Line(vec![]));
        let long = vec![b'x'; 4 * READ_CHUNK];
        one.write_all(&long).unwrap();
        let error = (0..4).find_map(|_| lines.read_line().err()).unwrap();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);

        let (one, other) = UnixStream::pair().unwrap();
        drop(one);
        assert_eq!(BoundedLineReader::new(other, 10).unwrap().read_line().unwrap(), LineRead::Closed);
    }
}
