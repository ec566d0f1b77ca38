//! Line-based reading from a connection.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Maximum time to wait for a line before the reader can check other conditions.
const READ_TIMEOUT: Duration = Duration::from_millis(100);
const READ_CHUNK: usize = 16384;

/// Result of reading one line.
#[derive(PartialEq, Eq, Debug)]
pub enum LineRead {
    Line(Vec<u8>),
    /// No complete line has arrived yet.
    Incomplete,
    /// The peer has closed its direction of the connection.
    Closed,
}

/// Reads lines that are at most `max_line_bytes` bytes long.
pub struct BoundedLineReader {
    stream: UnixStream,
    pending: Vec<u8>,
    max_line_bytes: usize,
}

impl BoundedLineReader {
    pub fn new(stream: UnixStream, max_line_bytes: usize) -> io::Result<BoundedLineReader> {
        stream.set_read_timeout(Some(READ_TIMEOUT))?;
        Ok(BoundedLineReader { stream, pending: vec![], max_line_bytes })
    }

    pub fn stream(&self) -> &UnixStream {
        &self.stream
    }

    /// Returns the next line if it arrives within the timeout.
    pub fn read_line(&mut self) -> io::Result<LineRead> {
        let mut searched = 0;
        loop {
            if let Some(end) = self.pending[searched..].iter().position(|byte| *byte == b'\n') {
                let rest = self.pending.split_off(searched + end + 1);
                let mut line = std::mem::replace(&mut self.pending, rest);
                line.pop();
                return Ok(LineRead::Line(line));
            }
            searched = self.pending.len();
            if searched > self.max_line_bytes {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a line is too long"));
            }
            let mut chunk = [0; READ_CHUNK];
            match self.stream.read(&mut chunk) {
                Ok(0) => return Ok(LineRead::Closed),
                Ok(read) => self.pending.extend_from_slice(&chunk[..read]),
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => return Ok(LineRead::Incomplete),
                    io::ErrorKind::Interrupted => {}
                    _ => return Err(error),
                },
            }
        }
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
        assert_eq!(lines.read_line().unwrap_err().kind(), io::ErrorKind::InvalidData);

        let (one, other) = UnixStream::pair().unwrap();
        drop(one);
        assert_eq!(BoundedLineReader::new(other, 10).unwrap().read_line().unwrap(), LineRead::Closed);
    }
}
