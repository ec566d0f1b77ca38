//! Line-based reading from a connection.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Maximum time to wait for a line before the reader can check other conditions.
const READ_TIMEOUT: Duration = Duration::from_millis(100);
const CHUNK: usize = 16384;

/// Result of a read.
#[derive(PartialEq, Eq, Debug)]
pub enum Found {
    Line(Vec<u8>),
    /// No complete line has arrived yet.
    Nothing,
    /// The peer has closed its direction of the connection.
    End,
}

/// Reader of lines of at most `most` bytes.
pub struct Lines {
    stream: UnixStream,
    pending: Vec<u8>,
    most: usize,
}

impl Lines {
    pub fn new(stream: UnixStream, most: usize) -> io::Result<Lines> {
        stream.set_read_timeout(Some(READ_TIMEOUT))?;
        Ok(Lines { stream, pending: vec![], most })
    }

    pub fn stream(&self) -> &UnixStream {
        &self.stream
    }

    /// Returns the next line if it arrives within the timeout.
    pub fn next(&mut self) -> io::Result<Found> {
        let mut searched = 0;
        loop {
            if let Some(end) = self.pending[searched..].iter().position(|byte| *byte == b'\n') {
                let rest = self.pending.split_off(searched + end + 1);
                let mut line = std::mem::replace(&mut self.pending, rest);
                line.pop();
                return Ok(Found::Line(line));
            }
            searched = self.pending.len();
            if searched > self.most {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a line is too long"));
            }
            let mut chunk = [0; CHUNK];
            match self.stream.read(&mut chunk) {
                Ok(0) => return Ok(Found::End),
                Ok(read) => self.pending.extend_from_slice(&chunk[..read]),
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => return Ok(Found::Nothing),
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
    fn lines_come_in_pieces_and_have_a_greatest_length() {
        let (mut one, other) = UnixStream::pair().unwrap();
        let mut lines = Lines::new(other, 3 * CHUNK).unwrap();
        assert_eq!(lines.next().unwrap(), Found::Nothing);
        one.write_all(b"first\nsec").unwrap();
        assert_eq!(lines.next().unwrap(), Found::Line(b"first".to_vec()));
        assert_eq!(lines.next().unwrap(), Found::Nothing);
        one.write_all(b"ond\n\n").unwrap();
        assert_eq!(lines.next().unwrap(), Found::Line(b"second".to_vec()));
        assert_eq!(lines.next().unwrap(), Found::Line(vec![]));
        let long = vec![b'x'; 4 * CHUNK];
        one.write_all(&long).unwrap();
        assert_eq!(lines.next().unwrap_err().kind(), io::ErrorKind::InvalidData);

        let (one, other) = UnixStream::pair().unwrap();
        drop(one);
        assert_eq!(Lines::new(other, 10).unwrap().next().unwrap(), Found::End);
    }
}
